"""Data classes of our own: what the standard library makes of the same class, they are."""

from __future__ import annotations

import dataclasses
import math
import pickle
from typing import Any, ClassVar

import pytest

from gpuforge import dataclass as ours


class Plain:
    """A class of values."""

    kinds: ClassVar[int] = 2
    name: str
    size: int = 3
    parts: list[int] = ours.field(default_factory=list)
    hidden: str = ours.field(default="h", repr=False)

    def __post_init__(self) -> None:
        self.parts.append(self.size)


@ours.dataclass(frozen=True)
class Kept:
    """A frozen one that pickle finds."""

    name: str
    sizes: tuple[int, ...] = ()


def made(**said: Any) -> tuple[Any, Any]:
    """Return the class as made here and as the standard library makes it."""
    mine = type("Plain", (), dict(vars(Plain)))
    content = dict(vars(Plain))
    content |= {"parts": dataclasses.field(default_factory=list)}
    content |= {"hidden": dataclasses.field(default="h", repr=False)}
    for name in ("__dict__", "__weakref__"):
        content.pop(name)
    return ours.dataclass(**said)(mine), dataclasses.dataclass(**said)(type("Plain", (), content))


@pytest.mark.parametrize("said", [{}, {"frozen": True}, {"eq": False}])
def test_values_are_as_the_standard_library_makes_them(said: dict[str, Any]) -> None:
    mine, theirs = made(**said)
    for given in (("a",), ("a", 5), ("a", 5, [1], "x")):
        first, second = mine(*given), theirs(*given)
        assert repr(first) == repr(second)
        assert dataclasses.asdict(first) == dataclasses.asdict(second)
        assert (first == mine(*given)) == (second == theirs(*given))
        assert first != mine("b") and first != second
    assert mine.__match_args__ == theirs.__match_args__
    assert [f.name for f in dataclasses.fields(mine)] == [
        f.name for f in dataclasses.fields(theirs)
    ]
    with pytest.raises(TypeError, match="name"):
        mine()
    with pytest.raises(TypeError, match="other"):
        mine("a", other=1)


def test_each_value_has_a_list_of_its_own() -> None:
    mine, _ = made()
    first, second = mine("a"), mine("a")
    assert first.parts == [3] and first.parts is not second.parts


def test_replace_keeps_the_other_fields() -> None:
    one = Kept("a", (1,))
    for replace in (ours.replace, dataclasses.replace):
        assert replace(one, name="b") == Kept("b", (1,))
    with pytest.raises(TypeError):
        ours.replace(one, colour=1)


def test_what_is_frozen_has_a_hash_and_stays() -> None:
    one = Kept("a", (1,))
    assert hash(one) == hash(Kept("a", (1,))) and len({one, Kept("a", (1,)), Kept("b")}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.name = "b"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del one.name  # type: ignore[misc]
    mine, _ = made()
    with pytest.raises(TypeError, match="unhashable"):
        hash(mine("a"))


def test_they_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(Kept("a", (1,)))) == Kept("a", (1,))


def test_a_subclass_is_made_by_its_base() -> None:
    class Below(Kept):
        pass

    assert Below("a").name == "a" and Below("a") != Kept("a")


@ours.dataclass
class One:
    """One field."""

    value: Any


@pytest.mark.parametrize("value", [math.nan, (1, 2), "text", None])
def test_one_field_is_compared_as_in_a_tuple(value: Any) -> None:
    """The same NaN is equal to itself there. (Python's own have not been since 3.13.)"""
    assert (One(value) == One(value)) is ((value,) == (value,)) is True
