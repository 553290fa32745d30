"""The parts of the long run of `soak.py`."""
