"""Benchmarks (``bench_*`` functions of a file): measuring, storing and comparing them."""
