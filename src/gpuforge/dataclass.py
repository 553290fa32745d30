"""Data classes like the standard library's, whose methods are generated on first use.

The standard library compiles up to seven functions for each class at import: 0.6 to 1.1 ms, which
was half the import time of the modules that place calls. Here a class gets its initialiser with its
first instance, and all classes share the functions that compare, hash and print. The standard
`dataclasses.fields`, `replace`, `asdict` and `is_dataclass` accept these classes. There is no
`slots` and no inheritance; `inspect` knows a class's parameters once it has an instance.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import replace as replace
else:

    def dataclass(cls=None, /, *, frozen=False, eq=True):
        """Turn a class into a data class, as `dataclasses.dataclass` does."""
        return _made(cls, frozen, eq) if cls else lambda given: _made(given, frozen, eq)

    def replace(value, /, **changes):
        """Return a copy with some fields changed, as `dataclasses.replace` does."""
        before = {name: getattr(value, name) for name in type(value).__match_args__}
        return type(value)(**before | changes)

    class field(dict):  # noqa: N801 - as it is called there
        """The options of a field: ``default``, ``default_factory``, ``repr``, ``metadata``."""


class _Fields:
    """Descriptor that creates a class's ``__dataclass_fields__`` on first access."""

    def __init__(self, annotations: dict[str, Any], said: dict[str, Any]) -> None:
        self.annotations, self.said = annotations, said

    def __get__(self, instance: object, owner: type) -> Any:
        import dataclasses

        given = {
            name: dataclasses.field(**one) if type(one) is field else one
            for name, one in self.said.items()
        }
        about = {
            "__annotations__": self.annotations,
            "__module__": owner.__module__,
            "__doc__": "-",
        }
        like: Any = type(owner.__name__, (), about | given)
        made = dataclasses.dataclass(init=False, repr=False, eq=False)(like).__dataclass_fields__
        owner.__dataclass_fields__ = made  # type: ignore[attr-defined]
        return made


def _made(cls: Any, frozen: bool, eq: bool) -> Any:
    given = cls.__annotations__.items()
    annotations = {name: kind for name, kind in given if "ClassVar" not in str(kind)}
    said = {name: vars(cls)[name] for name in annotations if name in vars(cls)}
    for name, one in said.items():
        if type(one) is field:
            if "default" in one:
                setattr(cls, name, one["default"])
            else:
                delattr(cls, name)
    cls.__dataclass_fields__ = _Fields(annotations, said)
    cls.__match_args__ = tuple(annotations)  # type: ignore[misc]

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        cls.__init__ = _initialiser(cls, annotations, said, frozen)
        cls.__init__(self, *args, **kwargs)

    cls.__init__ = __init__
    if "__repr__" not in vars(cls):
        cls.__repr__ = _repr(
            [n for n in annotations if type(said.get(n)) is not field or said[n].get("repr", True)]
        )
    if frozen:
        cls.__setattr__ = cls.__delattr__ = _refused
    if eq:
        _compared(cls, _values(*annotations), frozen)
    return cls


def _initialiser(cls: Any, names: Any, said: dict[str, Any], frozen: bool) -> Any:
    """Return the ``__init__`` of a class."""
    given: dict[str, Any] = {"_none": object(), "_set": object.__setattr__}
    heads, body = [], []
    for name in names:
        one: Any = said.get(name)
        head = value = name
        if type(one) is field and "default_factory" in one:
            given[f"_new_{name}"] = one["default_factory"]
            head, value = f"{name}=_none", f"_new_{name}() if {name} is _none else {name}"
        elif name in said:
            given[f"_old_{name}"] = one["default"] if type(one) is field else one
            head = f"{name}=_old_{name}"
        heads.append(head)
        body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    lines = "\n ".join(body or ["pass"])
    exec(f"def __init__({', '.join(['self', *heads])}):\n {lines}", given)
    made = given["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def _repr(names: list[str]) -> Any:
    def __repr__(self: Any) -> str:  # noqa: N807
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({shown})"

    return __repr__


def _values(*names: str) -> Any:
    """Return a function that gives the values of an object's fields as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


def _compared(cls: Any, values: Any, frozen: bool) -> None:
    """Add ``__eq__`` by all fields to a class, and ``__hash__`` if it is frozen."""

    def __eq__(self: Any, other: Any) -> Any:  # noqa: N807
        return values(self) == values(other) if type(other) is type(self) else NotImplemented

    if "__eq__" not in vars(cls):
        cls.__eq__ = __eq__
    if vars(cls).get("__hash__") is None:
        cls.__hash__ = (lambda self: hash(values(self))) if frozen else None


def _refused(self: Any, name: str, value: Any = None) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot set or delete field {name!r}")
