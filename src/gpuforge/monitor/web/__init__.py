"""The web dashboard: one page, one feed of samples that all viewers share, metrics, health."""
