"""Short digests of text, the same in every process."""

from __future__ import annotations

try:
    from _blake2 import blake2b as blake2b  # hashlib's own, without the 3 ms of loading OpenSSL
except ImportError:  # another Python than CPython
    from hashlib import blake2b as blake2b


def digest(text: str, size_bytes: int = 12) -> str:
    """Return a short hexadecimal digest of a text."""
    return blake2b(text.encode("utf-8", "replace"), digest_size=size_bytes).hexdigest()
