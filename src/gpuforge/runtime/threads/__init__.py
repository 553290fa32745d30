"""Thread contention between the libraries of one process, and how to reduce it."""
