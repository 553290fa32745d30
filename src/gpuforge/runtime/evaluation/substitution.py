"""A function whose globals have a recording namespace in place of NumPy."""

from __future__ import annotations

import dis
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from gpuforge.runtime.array.namespace import Namespace
from gpuforge.runtime.function.entry import written

_READ_FROM_THE_DICT = ("__name__", "__package__", "__spec__", "__path__", "__warningregistry__")
"""What Python itself reads from the dict of a frame's globals, past its `__getitem__`, to import
relatively, to name the module of what is defined there, and to warn once."""
_needs: dict[Any, bool] = {}
_USES_THE_DICT = {  # the body of a class reads names past `__getitem__`
    dis.opmap.get(name)
    for name in "STORE_GLOBAL DELETE_GLOBAL LOAD_NAME LOAD_FROM_DICT_OR_GLOBALS".split()
}


class _Globals(dict[str, Any]):
    """A function's globals, with NumPy replaced by a recording namespace."""

    def __init__(self, real: dict[str, Any], namespace: Namespace) -> None:
        super().__init__({name: real[name] for name in _READ_FROM_THE_DICT if name in real})
        self.real, self.namespace = real, namespace

    def __del__(self) -> None:
        told = self.get("__warningregistry__")
        if told:  # the first warning of the module: later ones are told once in all
            self.real.setdefault("__warningregistry__", told)

    def __getitem__(self, name: str) -> Any:
        value = self.real[name]
        if value is np:
            return self.namespace
        if type(value) is FunctionType and value.__globals__ is self.real:
            return substituted(value, self.namespace)
        made = self.namespace.replaced(value)
        return value if made is None else made


def substituted(function: Callable[..., Any], namespace: Namespace) -> Callable[..., Any]:
    """Return a copy of a function whose globals have `namespace` in place of NumPy."""
    if type(function) is not FunctionType:
        return function
    code = written(function.__code__)
    if not code.co_names or _needs_globals(code):
        return function
    real = function.__globals__
    if type(real) is _Globals:
        real = real.real
    found = _Globals(real, namespace)
    dict.__setitem__(found, "__builtins__", real.get("__builtins__", __builtins__))
    made = FunctionType(code, found, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    made.__dict__.update(function.__dict__)
    made.__qualname__, made.__module__ = function.__qualname__, function.__module__
    return made


def _needs_globals(code: Any) -> bool:
    """Return whether code writes to its globals or may access their dict."""
    found = _needs.get(code)
    if found is None:
        found = (
            not {"globals", "f_globals", "exec", "eval"}.isdisjoint(code.co_names)
            or not _USES_THE_DICT.isdisjoint(code.co_code[::2])
            or any(_needs_globals(inner) for inner in code.co_consts if hasattr(inner, "co_code"))
        )
        _needs[code] = found
    return found
