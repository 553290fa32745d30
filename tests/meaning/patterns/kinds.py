"""What a program sees of an array's or a scalar's type."""

from __future__ import annotations

import numpy as np

from tests.meaning.arrays import vec
from tests.meaning.pattern import pattern

ZEROS = np.zeros(2)
NAMES = {np.ndarray: "array", list: "list"}


@pattern(lambda: vec(6))
def printed_type(x):
    print(type(x))
    return type(x).__name__


@pattern(lambda: vec(6))
def subclass_of(x):
    return issubclass(type(x), np.ndarray)


@pattern(lambda: vec(6))
def looked_up(x):
    return NAMES[type(x)]


@pattern(lambda: vec(6))
def looked_up_or_other(x):
    return NAMES.get(type(x), "other"), {np.ndarray: 1}.get(type(x), 2)


@pattern(lambda: vec(6))
def same_type(x):
    return type(x) is type(ZEROS)


@pattern(lambda: vec(6))
def length_of_a_scalar(x):
    try:
        return len(x.sum())
    except TypeError as error:
        return str(error)


@pattern(lambda: vec(6))
def items_of_a_scalar(x):
    try:
        return list(x.sum())
    except TypeError as error:
        return str(error)
