"""JAX on the CPU or GPU: a whole graph compiled at once, in JAX's scoped 64-bit mode.

Where JAX differs from NumPy for some values there is a guard: it clamps indices, saturates
conversions beyond the dtype, does not check integers divided by zero, and drops NaN in extremes of
long arrays on a CPU. XLA flushes subnormal numbers to zero on the CPU in every operation. XLA's
algebraic simplification is switched off per program: it simplifies ``(x + 1e300) - 1e300`` and
``log(exp(x))`` to ``x``, and a mask times NaN to 0. On a CPU, programs are as fast without it. The
rewriting to YNNPACK is switched off, too, except for matrix products: it relies on simplified
broadcasts, without which sums of products with axes of length 1 are wrong. LLVM rounds a product
and a sum only once (FMA); a fence keeps them apart.

Sources: JAX documentation, ``jax.jit`` (compiler_options); XLA, `xla_disable_hlo_passes` and
``algebraic_simplifier.cc``.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache, cached_property, partial, reduce
from importlib import import_module
from operator import or_
from typing import Any

import numpy as np

from gpuforge.dataclass import dataclass
from gpuforge.runtime.array.graph import REPEAT
from gpuforge.runtime.array.index import NEW, PLACE, SPAN
from gpuforge.runtime.array.indexing import index_of
from gpuforge.runtime.backends import Array, Backend, Program
from gpuforge.runtime.lowering import placing
from gpuforge.runtime.lowering.contract import (
    COMPLEX_GUARDED,
    GUARDS,
    NOT_COMPLEX,
    Lowering,
    complex_operand_not_finite,
    only,
    reduced_by,
    totalled,
)
from gpuforge.runtime.lowering.jax import extended, place_of_extreme

LIBRARY = "jax"
COMPILES = True
_TAKEN_BYTES = 1 << 16
"""Results of at least this many bytes are not copied: NumPy takes over their memory."""
_ONE = np.float64(1)
_MEMORY_VARIABLES = (
    "XLA_PYTHON_CLIENT_PREALLOCATE", "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION",
    "XLA_PYTHON_CLIENT_ALLOCATOR",
)  # fmt: skip
"""By which a user chooses how JAX takes a GPU's memory; the first is set if none is."""
_CALLED = re.compile('custom_call_target="([^"]*)"')
_AS_WRITTEN = {"xla_disable_hlo_passes": "algsimp,dot-library-rewriter"}
_WITH_PRODUCTS = {
    "xla_disable_hlo_passes": "algsimp",
    "xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT",
}
"""Options for programs with matrix products, which take twice as long without YNNPACK."""


class JaxBackend(Backend):
    """One JAX device."""

    compiles = COMPILES

    def __init__(self, jax: Any, device: Any) -> None:
        self.jax = jax
        self.device = device
        self.on_host = device.platform == "cpu"
        self.is_default = device == jax.devices()[0]  # where JAX puts NumPy arrays
        index = f":{device.id}" if device.id or not self.on_host else ""
        self.name = f"jax:{device.platform}{index}"
        self.version = str(jax.__version__)
        self.lowering = lowering(jax, on_host=self.on_host)
        scoped = hasattr(jax, "enable_x64")
        self._wide = jax.enable_x64 if scoped else jax.experimental.enable_x64

    def put(self, array: Array) -> Any:
        return array if self.on_host else self.jax.device_put(array, self.device)

    def get(self, array: Any) -> Array:
        if self.on_host and array.nbytes >= _TAKEN_BYTES and array.is_fully_addressable:
            return _taken(array)
        return np.array(array)

    def program(self, function: Program, given: Sequence[Any]) -> Program:
        fence = self.lowering.fence
        assert isinstance(fence, Fence)

        looked_at: list[int] = []

        def own(one: Any, *leaves: Any) -> Any:
            # jax.jit caches traces by function: a new one here, or it finds those of a dead method
            fence.one = one
            made, fired, _ = function(*leaves)
            told = []
            for found in fired:
                if type(found) is not _NotFinite:
                    told += [found] if found is not False else []
                elif self.on_host and (places := _places(made, found.result)):
                    looked_at.extend(places)
                else:
                    told.append(found.traced())
            return made, [reduce(or_, told)] if told else [], []

        options = self._options_for_products if _has_products(function) else _AS_WRITTEN
        made = self.jax.jit(own, compiler_options=options).lower(_ONE, *given).compile()
        return _Compiled(made, looked_at)

    @cached_property
    def _options_for_products(self) -> dict[str, str]:
        """The compiler's options for matrix products, if this version knows them."""
        try:
            self.jax.jit(abs, compiler_options=_WITH_PRODUCTS).lower(_ONE).compile()
        except Exception:  # noqa: BLE001 - a library without them, or another device
            return _AS_WRITTEN
        return _WITH_PRODUCTS

    @cached_property
    def stored_under(self) -> str:
        from importlib.metadata import version

        values = self.jax.config.values.items()
        # The cache folder does not affect what programs compute.
        settings = {n: v for n, v in values if "compilation_cache" not in n}
        settings["jax_enable_x64"] = True
        return f"{self.version} {version('jaxlib')} {sorted(settings.items())}"

    def stored(self, program: Program) -> bytes:
        assert isinstance(program, _Compiled)
        called = set(_CALLED.findall(program.made.as_text()))
        if not all(name.startswith("lapack_") for name in called):
            raise ValueError(f"it calls {', '.join(sorted(called))}")
        parts = self._serialization.serialize(program.made)
        return pickle.dumps((bool(called), program.looked_at, parts))

    def restored(self, data: bytes) -> Program:
        calls_lapack, looked_at, parts = pickle.loads(data)
        if calls_lapack:
            self._lapack_is_ready  # noqa: B018 - else the process crashes when the program runs
        load = self._serialization.deserialize_and_load
        return _Compiled(load(*parts, self.device.client, [self.device]), looked_at)

    @cached_property
    def _lapack_is_ready(self) -> bool:
        """True, after making JAX look up LAPACK, which it does only when lowering a function."""
        self.jax.jit(self.jax.numpy.linalg.cholesky).lower(np.eye(1))
        return True

    @property
    def _serialization(self) -> Any:
        return import_module("jax.experimental.serialize_executable")

    def scope(self) -> AbstractContextManager[Any]:
        if self.on_host and self.is_default:
            return self._wide(True)  # type: ignore[no-any-return]
        stack = ExitStack()
        stack.enter_context(self._wide(True))
        stack.enter_context(self.jax.default_device(self.device))
        stack.enter_context(self.jax.default_matmul_precision("highest"))
        return stack

    def wait(self, value: Any) -> None:
        self.jax.block_until_ready(value)

    def exhausted(self, error: BaseException) -> bool:
        return isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error)


def _has_products(function: Any) -> bool:
    """Return whether a program multiplies matrices, perhaps in a loop; False for any function."""
    graph = getattr(function, "graph", None)
    entries = graph.entries if graph else ()
    loops = (entry[2][0].graph.entries for entry in entries if entry[0] is REPEAT)
    return any(one[0].kind == "contraction" for part in (entries, *loops) for one in part)


class _Compiled:
    """A compiled program, with the results that are checked for finiteness after it ran."""

    def __init__(self, made: Any, looked_at: list[int]) -> None:
        self.made, self.looked_at = made, looked_at

    def __call__(self, *given: Any) -> Any:
        values, fired, finite = self.made(_ONE, *given)
        return values, [*fired, *(_NotFinite(values[place]) for place in self.looked_at)], finite


class _NotFinite:
    """Whether a result has values that are not finite.

    For an output in host memory, NumPy checks: that is as fast as in the program, and compiling a
    reduction to one value takes XLA 0.1 s more.
    """

    def __init__(self, result: Any) -> None:
        self.result = result

    def __bool__(self) -> bool:
        return not np.isfinite(np.asarray(self.result)).all()

    def traced(self) -> Any:
        """Return the check as a part of the program that is being compiled."""
        return ~(self.result - self.result == 0).all()


def _places(values: list[Any], one: Any) -> list[int]:
    """Return the index of an object (by identity) in a list, as a list of none or one."""
    return [place for place, value in enumerate(values) if value is one][:1]


@dataclass(frozen=True)
class _Box:
    """The part of an array that a basic index selects, in the terms of XLA's slices.

    Attributes
    ----------
    starts, lengths, steps : for each axis of the array; steps are positive
    turned : axes that are reversed
    shape : shape of the result, with new axes and without integer-indexed ones
    moves : whether some starts are known only when the program runs
    """

    starts: list[Any]
    lengths: list[int]
    steps: list[int]
    turned: list[int]
    shape: list[int]
    moves: bool


def _box(rest: Any) -> _Box:
    *given, pattern = rest
    places = iter(given)
    box = _Box([], [], [], [], [], bool(given))
    for part in pattern:
        if part == NEW:
            box.shape.append(1)
        elif part == PLACE:
            box.starts.append(next(places))
            box.lengths.append(1)
            box.steps.append(1)
        elif part[0] == SPAN:
            box.starts.append(next(places))
            box.lengths.append(part[1])
            box.steps.append(part[2])
            box.shape.append(part[1])
        else:
            start, stop, step = part
            taken = range(start, -1 if stop is None else stop, step)
            if step < 0:
                box.turned.append(len(box.starts))
            box.starts.append(min(taken, default=0))
            box.lengths.append(len(taken))
            box.steps.append(abs(step))
            box.shape.append(len(taken))
    return box


def _getitem(jax: Any, x: Any, *rest: Any) -> Any:
    box = _box(rest)
    if not (box.moves or box.turned) and box.lengths == [*x.shape] and 0 not in box.lengths:
        return x.reshape(box.shape)
    spans = [max(0, (n - 1) * step + 1) for n, step in zip(box.lengths, box.steps, strict=True)]
    if box.moves:
        x = jax.lax.dynamic_slice(x, box.starts, spans)
        starts, ends = [0] * len(spans), spans
    else:
        starts, ends = box.starts, [a + n for a, n in zip(box.starts, spans, strict=True)]
    if not box.moves or any(step > 1 for step in box.steps):
        x = jax.lax.slice(x, starts, ends, box.steps)
    if box.turned:
        x = jax.lax.rev(x, box.turned)
    return x.reshape(box.shape)


def _setitem(jax: Any, x: Any, value: Any, *rest: Any) -> Any:
    """Return `x` with `value` written into a box; XLA scatters only if the box has gaps."""
    box = _box(rest)
    value = jax.numpy.broadcast_to(value, box.shape).reshape(box.lengths)
    if box.turned:
        value = jax.lax.rev(value, box.turned)
    if 0 in box.lengths:
        return x
    if any(step > 1 for step in box.steps):
        parts = zip(box.starts, box.lengths, box.steps, strict=True)
        index = tuple(start + step * jax.numpy.arange(n) for start, n, step in parts)
        return x.at[jax.numpy.ix_(*index)].set(value)
    return jax.lax.dynamic_update_slice(x, value, box.starts) if box.starts else value


def _repeat(jax: Any, *given: Any) -> tuple[list[Any], list[Any]]:
    """Run the turns of a repetition in one loop of the compiled program."""
    *inputs, program, repetition = given
    carried, every = repetition.carried, range(len(repetition.graph.outputs))
    left = [output for output in every if output not in dict(carried).values()]

    def turn(place: Any, state: Any) -> Any:
        values, _, fired = state
        taken = list(inputs)
        for (slot, _), value in zip(carried, values, strict=True):
            taken[slot] = value
        for slot in repetition.each:
            taken[slot] = inputs[slot][place]
        made, told, _ = program(*taken)
        told = [one.traced() if type(one) is _NotFinite else one for one in told]
        return (
            [made[output] for _, output in carried],
            [made[output] for output in left],
            reduce(or_, told, fired),
        )

    xp = jax.numpy
    start = [xp.asarray(inputs[slot]) for slot, _ in carried]
    _, others, _ = jax.eval_shape(turn, 0, (start, [], False))
    empty = [xp.zeros(one.shape, one.dtype) for one in others]
    values, others, fired = jax.lax.fori_loop(
        0, repetition.count, turn, (start, empty, xp.asarray(False))
    )
    found = {output: value for (_, output), value in zip(carried, values, strict=True)}
    found |= dict(zip(left, others, strict=True))
    return [found[output] for output in every], [fired]


def _extreme(jax: Any, function: Any) -> Any:
    """Return a maximum or minimum that propagates NaN: XLA's drops it in long arrays on a CPU."""

    def extreme(x: Any, axes: Any, keep: bool) -> Any:
        found = function(x, axis=axes, keepdims=keep)
        if x.dtype.kind != "f":
            return found
        lost = jax.numpy.isnan(x).any(axis=axes, keepdims=keep)
        return jax.numpy.where(lost, jax.numpy.nan, found).astype(x.dtype)

    return extreme


def _fixed_power(xp: Any, x: Any, n: Any) -> Any:
    """Return a power with a constant exponent; in NumPy, roots of -inf are NaN."""
    return x * x if n == 2 else xp.sqrt(x) if n == 0.5 else x**n


def _divided(xp: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """Return floor quotient and remainder, with NumPy's sign of zeros."""
    narrow = xp.result_type(a, b)
    if narrow == np.float16:  # NumPy divides in single precision, and rounds once
        wide = (xp.asarray(one, narrow).astype(np.float32) for one in (a, b))
        whole, left = _divided(xp, *wide)
        return whole.astype(narrow), left.astype(narrow)
    whole, left = xp.floor_divide(a, b), xp.remainder(a, b)
    if whole.dtype.kind != "f":
        return whole, left
    whole = xp.where(whole == 0, xp.copysign(0, xp.true_divide(a, b)), whole)
    return whole, xp.copysign(left, b)


class Fence(threading.local):
    """Keeps LLVM from fusing a product and the sum that uses it.

    It multiplies the product by a one that is known only at run time. LLVM then fuses that exact
    multiplication with the sum, so the product is rounded before. XLA removes its own barriers, and
    reductions to the same precision, before LLVM sees them.

    Attributes
    ----------
    one : the run-time one of the program that this thread is tracing
    """

    one: Any

    def __call__(self, product: Any) -> Any:
        if product.dtype.kind != "f":
            return product
        return product * self.one.astype(product.dtype)


def _complex_not_finite(result: Any) -> Any:
    return _not_finite(result) if result.dtype.kind == "c" else False


def _not_finite(result: Any) -> Any:
    if result.dtype.kind not in "fc":
        return False
    return _NotFinite(result)


def _arctan2(xp: Any, y: Any, x: Any) -> Any:
    """Return ``arctan2(y, x)``, which is NaN on a CPU where XLA knows that both are 0.

    Subnormal numbers count as 0 there, as everywhere in XLA.
    """
    return xp.arctan2(y, xp.where((y == 0) & (x == 0), xp.copysign(1, x), x))


def lowering(jax: Any, *, on_host: bool = True) -> Lowering:
    """Return the lowering to JAX."""
    xp = jax.numpy
    same = (
        "negative absolute fabs sqrt square reciprocal exp exp2 expm1 log log2 log10 log1p sin cos"
        " tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh deg2rad rad2deg radians"
        " degrees rint floor ceil trunc isfinite isinf isnan signbit logical_not invert positive"
        " add subtract multiply true_divide maximum minimum fmax fmin"
        " hypot logical_and logical_or logical_xor logaddexp copysign fmod power"
        " float_power greater greater_equal less less_equal equal not_equal bitwise_and bitwise_or"
        " bitwise_xor left_shift right_shift where matmul concatenate conjugate sign cbrt"
        " heaviside transpose reshape broadcast_to real imag"
    ).split()
    functions: dict[str, Any] = {name: getattr(xp, name) for name in same}
    for name in ("any", "all"):
        functions[name] = reduced_by(getattr(xp, name))
    for name in ("sum", "prod"):
        functions[name] = totalled(getattr(xp, name))
    functions |= {
        "floor_divide": lambda a, b: _divided(xp, a, b)[0],
        "remainder": lambda a, b: _divided(xp, a, b)[1],
        "max": _extreme(jax, xp.max), "min": _extreme(jax, xp.min),
        "argmax": place_of_extreme(xp, "argmax", on_host),
        "argmin": place_of_extreme(xp, "argmin", on_host),
        "arctan2": partial(_arctan2, xp),
        "integer_power": xp.power, "fixed_power": partial(_fixed_power, xp),
        "full": xp.full, "eye": lambda n, m, k, dtype: xp.eye(n, m, k=k, dtype=dtype),
        "astype": lambda x, dtype: x.astype(dtype),
        "join_complex": jax.lax.complex,
        "turns": partial(_repeat, jax),
        "getitem": partial(_getitem, jax), "setitem": partial(_setitem, jax),
        "gather": lambda x, *rest: x[index_of(rest)],
        "checked_gather": lambda x, *rest: x[index_of(rest)],
        "scatter": lambda x, value, *rest: x.at[index_of(rest)].set(value),
        "checked_scatter": lambda x, value, *rest: x.at[index_of(rest)].set(value),
        "concatenate": lambda *given: xp.concatenate(given[:-1], axis=given[-1]),
        "einsum": lambda *given: xp.einsum(given[-1], *given[:-1], precision="highest"),
        "matmul": lambda a, b: xp.matmul(a, b, precision="highest"),
    }  # fmt: skip
    real = only("biuf", "JAX's complex function differs")
    plain = Lowering(
        "JAX", functions, frozenset("?bBhHiIlLqQefdFD"),
        guards=GUARDS | {"absolute": complex_operand_not_finite},
        refused={
            **dict.fromkeys(NOT_COMPLEX, real),
            "reciprocal": only("fc", "JAX returns floating-point numbers"),
            **dict.fromkeys(("power", "integer_power"),
                            only("fc", "JAX uses only six bits of an integer exponent")),
        },
        result_guards=dict.fromkeys(COMPLEX_GUARDED, _complex_not_finite)
        | dict.fromkeys(("matmul", "einsum", "sum", "prod"), _not_finite),
        fence=Fence(),
    )  # fmt: skip
    return placing.in_jax(extended(plain, jax), jax)


def _taken(array: Any) -> Array:
    """Return a writable NumPy array in the host memory of a JAX array that nothing else uses.

    JAX exports its memory read-only; a result that was computed for one caller belongs to it.
    """
    memory = (ctypes.c_char * array.nbytes).from_address(array.unsafe_buffer_pointer())
    memory.owner = array  # keeps the memory alive
    return np.ndarray(array.shape, array.dtype, buffer=memory)


@contextmanager
def _memory_as_needed() -> Iterator[None]:
    """Make JAX take memory of a GPU as it needs it, not three quarters at once.

    Other libraries and processes use the same GPU. A choice of the user stays.

    Source: JAX documentation, page "GPU memory allocation".
    """
    chosen = any(name in os.environ for name in _MEMORY_VARIABLES)
    if not chosen:
        os.environ[_MEMORY_VARIABLES[0]] = "false"
    try:
        yield
    finally:
        if not chosen:
            os.environ.pop(_MEMORY_VARIABLES[0], None)


def open_devices() -> list[Backend]:
    """Import JAX and return a backend for each of its devices, the CPU last."""
    jax = import_module("jax")
    with _memory_as_needed():
        devices = list(jax.devices())
    if all(device.platform != "cpu" for device in devices):
        devices.append(jax.devices("cpu")[0])
    for device in devices:
        _keep_in_forks(device.client)
    return [JaxBackend(jax, device) for device in devices]


@cache
def _keep_in_forks(client: Any) -> None:
    """Never free a client in a forked child: that waits for threads which only the parent has."""
    if hasattr(os, "register_at_fork"):
        keep = partial(ctypes.pythonapi.Py_IncRef, ctypes.py_object(client))
        os.register_at_fork(after_in_child=keep)
