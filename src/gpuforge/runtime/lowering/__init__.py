"""How libraries compute the operations that are more than arithmetic: one module per library."""
