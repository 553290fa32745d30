"""Thread contention between the libraries of one process, and how to reduce it."""

WITHOUT_BLAS = "gpuforge trial"
"""Name of threads that never call BLAS: they wait for another process."""
