"""The profiler: records a program, stores the profile in a file, reads, analyses and reports it.

A session file (``.gfp``) is read into a `Profile`. Analyses such as `breakdown` and `paths` are
pure functions of it, and each report format is a module in ``formats``.
"""
