"""The web dashboard: a page, a feed of samples shared by all viewers, metrics, and health."""
