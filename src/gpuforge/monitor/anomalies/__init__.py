"""The rules that find anomalies: one module each, with ``find(subjects)``."""
