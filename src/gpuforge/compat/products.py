"""Products by the names that devices show, for GPUs whose capability or target nothing shows."""

from __future__ import annotations

import re
from functools import cache

from gpuforge.compat.tables import entries

# Words that one source writes and another leaves out.
_FILLING = r"(?i)\([^)]*\)$|\b(nvidia|geforce|tesla|corporation|graphics)\b"


@cache
def value_of(name: str, table: str, kind: str, field: str) -> str | None:
    """Return `field` of the entry that lists a product, None when no list has it.

    The longest product name that occurs as whole words wins: ``RTX 4070 Ti`` before ``RTX 4070``.
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
    plain = re.sub(_FILLING, " ", name) if table == "nvidia" else name
    return " ".join(re.findall(r"[a-z0-9]+", plain.lower()))
