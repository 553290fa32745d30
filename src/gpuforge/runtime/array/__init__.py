"""Recorded arrays: NumPy's meaning, noted as a graph that any backend can evaluate."""
