"""What the libraries of one process do to each other's threads, and what is done about it."""
