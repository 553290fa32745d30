"""How libraries do the operations that are more than arithmetic: one module for each library."""
