"""Facts about products by name, for GPUs whose capability or target no tool reports."""

from __future__ import annotations

import re
from functools import cache

from gpuforge.compat.tables import entries

# Words that some sources write and others leave out.
_FILLER_WORDS = r"(?i)\([^)]*\)$|\b(nvidia|geforce|tesla|corporation|graphics)\b"


@cache
def value_of(name: str, table: str, kind: str, field: str) -> str | None:
    """Return `field` of the entry that lists a product, or None if no entry does.

    The longest product name that matches whole words wins: ``RTX 4070 Ti`` before ``RTX 4070``.
    """
    words, known = f" {_words(name, table)} ", _products(table, kind, field)
    matches = [product for product in known if f" {product} " in words]
    return known[max(matches, key=len)] if matches else None


@cache
def _products(table: str, kind: str, field: str) -> dict[str, str]:
    return {
        _words(product, table): entry[field]
        for entry in entries(table, kind)
        for product in entry.get("products", ())
    }


def _words(name: str, table: str) -> str:
    plain = re.sub(_FILLER_WORDS, " ", name) if table == "nvidia" else name
    return " ".join(re.findall(r"[a-z0-9]+", plain.lower()))
