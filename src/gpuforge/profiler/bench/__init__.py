"""Functions ``bench_*`` of a file: measured, kept, compared with another version of the code."""
