"""Objects that still hold recorded arrays when their call has ended."""

from __future__ import annotations

import gc
from collections import deque
from functools import partial
from types import CellType, FrameType
from typing import Any

from gpuforge.runtime.array.array import Array
from gpuforge.runtime.array.recorder import Recorder
from gpuforge.runtime.evaluation.objects import (
    attributes,
    can_be_made_again,
    made_of,
    replace_keys,
    set_partial,
    slots,
)
from gpuforge.runtime.evaluation.results import Results

MAX_NESTED = 4
"""Depth of nested tuples that are searched for recorded arrays."""


def settle_kept(recorder: Recorder, given: list[Array], results: Results) -> None:
    """Replace recorded arrays that outlive the call in the objects that hold them."""
    kept = [one for one in gc.get_referrers(recorder) if type(one) is Array]
    new = {id(array): results.of(array) for array in kept}
    tuples, holders = _holders_of(kept, (kept, given, results.alive))
    for found in tuples:
        new[id(found)] = made_of(found, [new.get(id(item), item) for item in found])
    for holder in holders:
        _replace(holder, new)


def _holders_of(kept: list[Array], own: tuple[Any, ...]) -> tuple[list[Any], list[Any]]:
    """Return the tuples that hold arrays, each after those in it, and the user's other holders.

    Each level of nesting is one search of all objects: one for each array would take seconds.
    """
    tuples: dict[int, Any] = {}
    holders: list[Any] = []
    level: list[Any] = kept
    for _ in range(MAX_NESTED):
        found = [
            one
            for one in gc.get_referrers(*level)
            if not isinstance(one, FrameType) and not _is_one_of(one, (*own, level, holders))
        ]
        level = [one for one in found if can_be_made_again(one)]
        holders += [one for one in found if not can_be_made_again(one)]
        for one in level:
            tuples[id(one)] = tuples.pop(id(one), one)
        if not level:
            break
        own = (*own, found, tuples)
    return list(tuples.values()), holders


def _is_one_of(holder: Any, own: tuple[Any, ...]) -> bool:
    return any(holder is mine for mine in own)


def _replace(holder: Any, new: dict[int, Any]) -> None:
    """Replace the objects whose ids are in `new` in an object that holds some of them."""
    if isinstance(holder, dict | set):
        replace_keys(holder, lambda key: new.get(id(key), key))
    if type(holder) is dict:
        _replace_items(holder, list(holder.items()), new)
    elif isinstance(holder, list | deque):
        _replace_items(holder, list(enumerate(holder)), new)
    elif isinstance(holder, CellType):
        holder.cell_contents = new.get(id(holder.cell_contents), holder.cell_contents)
    elif isinstance(holder, partial):
        set_partial(holder, new.get(id(holder.args), holder.args), holder.keywords)
    else:
        if isinstance(holder, BaseException):
            holder.args = new.get(id(holder.args), holder.args)
        _replace_attributes(holder, new)


def _replace_attributes(holder: Any, new: dict[int, Any]) -> None:
    for slot, value in slots(holder):
        if id(value) in new:
            slot.__set__(holder, new[id(value)])
    held = attributes(holder)
    if isinstance(held, dict):
        _replace_items(held, list(held.items()), new)


def _replace_items(holder: Any, items: list[Any], new: dict[int, Any]) -> None:
    for key, item in items:
        if id(item) in new:
            holder[key] = new[id(item)]
