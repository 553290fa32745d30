"""Everyday array functions of twelve fields, each in plain NumPy and in Array API form."""

from everyday import (
    complex_numbers,
    counts,
    finance,
    geometry,
    image,
    learning,
    linear_algebra,
    masks,
    physics,
    signal,
    sorting,
    statistics,
)
from everyday.body import Body

__all__ = ["BODIES", "FIELDS", "Body"]

FIELDS: dict[str, tuple[Body, ...]] = {
    "image": image.BODIES,
    "signal": signal.BODIES,
    "statistics": statistics.BODIES,
    "linear algebra": linear_algebra.BODIES,
    "finance": finance.BODIES,
    "physics": physics.BODIES,
    "geometry": geometry.BODIES,
    "counts": counts.BODIES,
    "machine learning": learning.BODIES,
    "masks and indexing": masks.BODIES,
    "sorting": sorting.BODIES,
    "complex": complex_numbers.BODIES,
}
BODIES: dict[str, Body] = {body.name: body for bodies in FIELDS.values() for body in bodies}
FIELD_OF: dict[str, str] = {body.name: field for field, found in FIELDS.items() for body in found}
assert len(BODIES) == sum(map(len, FIELDS.values())), "two bodies have one name"
