"""Which calls gain nothing from batches on NumPy: its own work outweighs Python's."""

LONG_SECONDS, LARGE_BYTES = 100e-6, 1 << 17


def gains_nothing(seconds: float, nbytes: int) -> bool:
    """Return whether a call takes so long, or is over so much, that a batch gains nothing."""
    return seconds > LONG_SECONDS or nbytes > LARGE_BYTES
