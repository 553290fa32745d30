"""JAX on the CPU or GPU, compiled once per signature, in its scoped 64-bit mode.

Not exactly NumPy, and therefore left out for a kind of call that uses it: indexing by arrays
(clamped or filled instead of raising), integer division (no zero check), the factorisations that
return NaN where NumPy raises, signs and remainders of zeros, argsort, comparisons of whole numbers
with constants (300 is wrapped to uint8), conversions to whole numbers. Which of them a function
uses is read from its trace. XLA takes subnormal numbers as zero on the CPU, whatever the operation.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from importlib import import_module
from types import ModuleType
from typing import Any, cast

import numpy as np

from gpuforge.runtime.backends import Array, Backend, KeepsNothing, Program, Uses
from gpuforge.runtime.watching import COMPLEX, NAN_OF_COMPLEX, ROOT, TIES

LIBRARY = "jax"
_CLAMPED = "JAX clamps or fills an index out of range, NumPy raises"
_SILENT = "JAX returns NaN where NumPy raises LinAlgError"
DEVIATIONS = {
    **dict.fromkeys(("gather", "dynamic_slice", "dynamic_update_slice"), _CLAMPED),
    **dict.fromkeys(("scatter", "scatter-add", "scatter_add", "scatter_mul"), _CLAMPED),
    **dict.fromkeys(("lu", "cholesky", "triangular_solve", "eigh", "eig", "svd"), _SILENT),
    "custom_linear_solve": _SILENT,
    "sort of pairs": f"JAX's argsort: {TIES}",
    "root": ROOT,
    "norm": "JAX squares whole numbers in their dtype, where they wrap",
    "complex": f"JAX's {NAN_OF_COMPLEX}",
    "to whole numbers": "JAX ends at the limits of a dtype, NumPy wraps",
    "narrowing": "JAX takes wide whole numbers as float32, NumPy as float64",
    "comparison": "JAX wraps a number beyond the dtype before it compares, NumPy does not",
}
INTEGER_DEVIATIONS = {
    "div": "JAX does not check integer division by zero as NumPy does",
    "rem": "JAX does not check integer division by zero as NumPy does",
    "integer_pow": "JAX's integer powers do not raise for negative exponents",
    "pow": "JAX's integer powers do not raise for negative exponents",
    "shift_right_logical": "JAX's integer powers do not raise for negative exponents",
    "shift_left": "JAX's shifts beyond the width are not NumPy's",
    "shift_right_arithmetic": "JAX's shifts beyond the width are not NumPy's",
}
FLOAT_DEVIATIONS = {
    **dict.fromkeys(("cumsum", "cumlogsumexp"), "JAX's running sums lose the sign of zeros"),
    "sign": "JAX's sign of -0 is -0, NumPy's is 0",
    "rem": "JAX's remainders have other signs of zero than NumPy's",
}


class JaxBackend(KeepsNothing):
    """One JAX device."""

    compiles = True
    writes = False
    dies_when_short = False
    deterministic = True

    def __init__(self, jax: Any, device: Any) -> None:
        self.jax = jax
        self.device = device
        self.on_host = device.platform == "cpu"
        index = f":{device.id}" if device.id or not self.on_host else ""
        self.name = f"jax:{device.platform}{index}"
        self.version = str(jax.__version__)
        self.floor_seconds = 0.0
        self.compile_seconds = 0.0
        scoped = hasattr(jax, "enable_x64")
        self._wide = jax.enable_x64 if scoped else jax.experimental.enable_x64

    def namespace(self) -> ModuleType:
        return import_module("jax.numpy")

    def put(self, array: Array, *, share: bool) -> Any:
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        if self.on_host:
            return array if share else array.copy(order="K")
        return self.jax.device_put(array, self.device)

    def get(self, array: Any) -> Array:
        return np.array(array)

    def is_array(self, value: Any) -> bool:
        return isinstance(value, self.jax.Array)

    def program(self, function: Program) -> Program:
        def own(*leaves: Any) -> Any:
            # jax.jit remembers traces by function: a new one, or it finds those of a dead method
            return function(*leaves)

        return cast(Program, self.jax.jit(own))

    def scope(self) -> AbstractContextManager[Any]:
        if self.on_host:
            return self._wide(True)  # type: ignore[no-any-return]
        stack = ExitStack()
        stack.enter_context(self._wide(True))
        stack.enter_context(self.jax.default_matmul_precision("highest"))
        return stack

    def watch(self, function: Program, arguments: tuple[Any, ...]) -> Uses:
        traced = self.jax.make_jaxpr(lambda *leaves: function(*leaves))(*arguments)
        uses = Uses()
        _walk(traced.jaxpr, uses)
        return uses

    def wait(self, value: Any) -> None:
        self.jax.block_until_ready(value)

    def written(self, array: Any) -> bool:
        return False

    def exhausted(self, error: BaseException) -> bool:
        return isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error)


_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


def _step(equation: Any) -> str:
    """Return the name under which one step of a traced program may be declared."""
    name = str(equation.primitive.name)
    dtypes = [getattr(v.aval, "dtype", np.dtype(bool)) for v in equation.invars]
    if name == "sort" and len(dtypes) > 1:
        return "sort of pairs"
    if name == "convert_element_type":
        made = np.dtype(equation.params["new_dtype"])
        if dtypes[0].kind in "fc" and made.kind in "iu":
            return "to whole numbers"
        wide = dtypes[0].kind in "iu" and dtypes[0].itemsize >= 4
        return "narrowing" if wide and made.kind in "fc" and made.itemsize < 8 else name
    numbers = [v.val for v in equation.invars if hasattr(v, "val")]
    if name in _COMPARISONS and dtypes[0].kind in "iu":
        # the trace holds the wrapped number: any number but a small one may have been another
        return "comparison" if any(not 0 <= number < 8 for number in numbers) else name
    if name in COMPLEX and any(dtype.kind == "c" for dtype in dtypes):
        return "complex"
    if name == "pow" and any(number == 0.5 for number in numbers):
        return "root"
    return name


def _walk(program: Any, uses: Uses) -> None:
    """Collect the primitives of a traced program and of those inside it."""
    counted: set[Any] = set()  # floating-point numbers made of whole ones
    for equation in program.eqns:
        name = _step(equation)
        if name == "sqrt" and equation.invars[0] in counted:
            name = "norm"
        uses.operations.add(name)
        kinds = {getattr(getattr(v.aval, "dtype", None), "kind", "") for v in equation.invars}
        whole = bool(kinds & set("iub")) and not kinds & set("fc")
        if name == "convert_element_type" and whole:
            counted.update(equation.outvars)
        steady = name == "integer_pow" and equation.params["y"] >= 0
        kind = INTEGER_DEVIATIONS if whole else FLOAT_DEVIATIONS
        reason = DEVIATIONS.get(name) or ("" if steady else kind.get(name))
        uses.not_exact = uses.not_exact or (reason or "")
        for value in equation.params.values():
            for inner in value if isinstance(value, list | tuple) else (value,):
                body = getattr(inner, "jaxpr", inner)
                if hasattr(body, "eqns"):
                    _walk(body, uses)


def open_devices() -> list[Backend]:
    """Import JAX and return a backend for each of its devices."""
    jax = import_module("jax")
    devices = list(jax.devices())
    if all(device.platform != "cpu" for device in devices):
        devices.append(jax.devices("cpu")[0])
    return [JaxBackend(jax, device) for device in devices]
