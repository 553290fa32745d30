"""The rules: one module each, with ``find(subjects)``."""
