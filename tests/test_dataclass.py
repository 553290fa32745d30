"""Data classes made when they are needed behave as the standard library's do."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from typing import Any

import pytest

from gpuforge import dataclass as lazy


def made(kind: Any, field: Any, frozen: bool) -> Any:
    class Made:
        first: int
        second: str = "two"
        third: list[int] = field(default_factory=list)
        hidden: float = field(default=0.5, repr=False)

    Made.__qualname__ = Made.__name__ = "Made"
    return kind(frozen=frozen)(Made)


@dataclasses.dataclass(frozen=True)
class OneAsUsual:
    value: Any


@lazy.dataclass(frozen=True)
class One:
    value: Any


@pytest.mark.parametrize("frozen", [False, True])
def test_they_are_made_shown_and_compared_alike(frozen: bool) -> None:
    usual = made(dataclasses.dataclass, dataclasses.field, frozen)
    ours = made(lazy.dataclass, lazy.field, frozen)
    for given in ((1,), (1, "b"), (1, "b", [3]), (1, "b", [3], 2.5)):
        assert repr(ours(*given)) == repr(usual(*given))
        assert ours(*given) == ours(*given)
        assert ours(*given) != usual(*given)
        assert dataclasses.asdict(ours(*given)) == dataclasses.asdict(usual(*given))
    assert ours(1).third is not ours(1).third
    assert ours(1) != ours(2)
    assert [f.name for f in dataclasses.fields(ours)] == [f.name for f in dataclasses.fields(usual)]
    assert dataclasses.is_dataclass(ours)
    for replaced in (lazy.replace, dataclasses.replace):
        assert replaced(ours(1), second="b") == ours(1, "b")
    assert copy.deepcopy(ours(1, third=[2])) == ours(1, third=[2])
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'first'"):
        ours()
    with pytest.raises(TypeError, match="unexpected keyword argument 'fourth'"):
        ours(1, fourth=2)


def test_what_is_frozen_stays_and_has_a_hash() -> None:
    one = One(1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="'value'"):
        one.value = 2  # type: ignore[misc]
    assert hash(one) == hash(One(1)) == hash(OneAsUsual(1))
    assert pickle.loads(pickle.dumps(one)) == one
    with pytest.raises(TypeError, match="unhashable"):
        hash(made(lazy.dataclass, lazy.field, frozen=False)(1))


@pytest.mark.parametrize("value", [math.nan, (1, 2), "text", None])
def test_one_field_is_compared_as_in_a_tuple(value: Any) -> None:
    """The same NaN is equal to itself there."""
    assert (One(value) == One(value)) is (OneAsUsual(value) == OneAsUsual(value)) is True
