"""Record a call and run its graph on a backend; NumPy settles whatever fails there."""
