"""Recorded arrays: NumPy's semantics, recorded as a graph that any backend can evaluate."""
