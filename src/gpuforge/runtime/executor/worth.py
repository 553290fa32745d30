"""Which calls gain nothing from batches on NumPy, because Python's overhead is small."""

LONG_SECONDS, LARGE_BYTES = 100e-6, 1 << 17


def gains_nothing(seconds: float, nbytes: int) -> bool:
    """Return whether a call is so long, or over so many bytes, that batching gains nothing."""
    return seconds > LONG_SECONDS or nbytes > LARGE_BYTES
