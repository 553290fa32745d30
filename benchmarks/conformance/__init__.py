"""NumPy's namespace as offloaded calls, and how a test suite is run over it."""
