"""PyOpenCL on any OpenCL device, with our own kernels for the most common rows.

Arrays are contiguous. Views are strided copies, made by one kernel; operands are broadcast by such
copies first. PoCL ends the process if an allocation fails.

Sources: OpenCL C specification, "Relative Error as ULPs" (exp 3, sin 4, pow 16 units) and "Explicit
Conversions"; PyOpenCL reference, page "Elementwise".
"""

from __future__ import annotations

import threading
import warnings
from contextlib import AbstractContextManager
from functools import cache
from importlib import import_module
from math import prod
from typing import Any

import numpy as np

from gpuforge import trace
from gpuforge.detect.free_memory import FreeMemory, read_free_memory
from gpuforge.runtime.array.indexing import index_of
from gpuforge.runtime.backends import Array, Backend
from gpuforge.runtime.lowering.contract import Lowering, only
from gpuforge.runtime.timing import KernelTimer

LIBRARY = "pyopencl"
NAMED_ONLY = True
"""Used only when named, because it ends the process when memory is short."""
C_TYPES = {
    "?": "uchar", "b": "char", "B": "uchar", "h": "short", "H": "ushort", "i": "int", "I": "uint",
    "l": "long", "L": "ulong", "q": "long", "Q": "ulong", "f": "float", "d": "double",
}  # fmt: skip
_FLOATS = (
    "exp expm1 log log1p log2 log10 sqrt sin cos tan sinh cosh tanh floor ceil trunc rint fabs cbrt"
    " exp2"
)
ONE = {name: f"{name}(x)" for name in _FLOATS.split()}
ONE |= {f"arc{name}": f"a{name}(x)" for name in "sin cos tan sinh cosh tanh".split()}
ONE |= {"square": "x * x", "negative": "-x", "positive": "x", "reciprocal": "1 / x"}
ONE |= {"absolute": "x < 0 ? -x : x", "invert": "~x", "sign": "x != x ? x : (x > 0) - (x < 0)"}
TESTS = {"isfinite": "isfinite(x)", "isinf": "isinf(x)", "isnan": "isnan(x)", "logical_not": "!x"}
TWO = {"add": "x + y", "subtract": "x - y", "multiply": "x * y", "true_divide": "x / y"}
TWO |= {"power": "pow(x, y)", "arctan2": "atan2(x, y)", "hypot": "hypot(x, y)"}
TWO |= {"bitwise_and": "x & y", "bitwise_or": "x | y", "bitwise_xor": "x ^ y"}
TWO["maximum"] = "(x != x || x >= y) ? x : y"
TWO["minimum"] = "(x != x || x <= y) ? x : y"
COMPARISONS = {"greater": "x > y", "greater_equal": "x >= y", "less": "x < y", "equal": "x == y"}
COMPARISONS |= {"less_equal": "x <= y", "not_equal": "x != y", "logical_and": "x && y"}
COMPARISONS |= {"logical_or": "x || y", "logical_xor": "!x != !y"}
"""row -> OpenCL C of one element, of x and y"""
REDUCTIONS = {
    "sum": ("0", "a + b"), "prod": ("1", "a * b"), "any": ("0", "a || b"), "all": ("1", "a && b"),
    "max": ("x[at]", "(a != a || a >= b) ? a : b"), "min": ("x[at]", "(a != a || a <= b) ? a : b"),
}  # fmt: skip
"""row -> initial value, OpenCL C that combines a and b"""
_REDUCE = """
__kernel void reduce(__global const T *x, __global T *z, const long length, const long parts,
                     const long chunk) {
    const long row = get_global_id(0) / parts, start = get_global_id(0) % parts * chunk;
    const long at = row * length + start;
    T a = BEGIN;
    for (long i = 0; i < chunk && start + i < length; i++) { const T b = x[at + i]; a = JOIN; }
    z[get_global_id(0)] = a;
}
"""
_MATMUL = """
#define W 16
__kernel void product(__global const T *a, __global const T *b, __global T *c,
                      const int m, const int n, const int k, const long u, const long v,
                      const long w) {
    __local T left[W][W], right[W][W];
    const int row = get_global_id(0), column = get_global_id(1);
    const int i = get_local_id(0), j = get_local_id(1);
    T total = 0;
    for (int start = 0; start < k; start += W) {
        left[i][j] = row < m && start + j < k ? a[u + (long) row * k + start + j] : 0;
        right[i][j] = column < n && start + i < k ? b[v + (long) (start + i) * n + column] : 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int p = 0; p < W && start + p < k; p++) total += left[i][p] * right[p][j];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (row < m && column < n) c[w + (long) row * n + column] = total;
}
"""
_TILE = 16


class ClArray:
    """An immutable C-contiguous array on one device."""

    def __init__(self, shape: tuple[int, ...], dtype: Any, buffer: Any) -> None:
        self.shape, self.dtype, self.buffer = shape, np.dtype(dtype), buffer
        self.size = prod(shape)

    def layout(self) -> Any:
        """Return a NumPy array of this shape and order with meaningless values."""
        steps = tuple(prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))
        return np.lib.stride_tricks.as_strided(_NOTHING, self.shape, steps, writeable=False)


_NOTHING = np.zeros(1, np.int8)


class OpenclBackend(Backend):
    """One OpenCL device with a queue; calls are serialized, since kernel objects hold arguments."""

    dies_when_short = True

    def __init__(self, cl: Any, device: Any, name: str) -> None:
        self.cl = cl
        self.name = name
        self.version = str(cl.VERSION_TEXT)
        self.context = cl.Context([device])
        # Whether a queue times its events is fixed at its creation: it does if tracing is on then.
        self._tells_times = trace.enabled
        kind = cl.command_queue_properties.PROFILING_ENABLE if self._tells_times else 0
        self.queue = cl.CommandQueue(self.context, properties=kind)
        self._timer: KernelTimer | None = None
        self.pool = cl.tools.MemoryPool(cl.tools.ImmediateAllocator(self.queue))
        self._lock = threading.RLock()
        self.kernel = cache(self._built)
        self.lowering = _lowering(self, double=bool(device.double_fp_config))

    def put(self, array: Array) -> ClArray:
        native = np.asarray(array, array.dtype.newbyteorder("="), order="C")
        with self._lock:
            made = self.empty(array.shape, native.dtype)
            if made.size:
                self.cl.enqueue_copy(self.queue, made.buffer, np.require(native, None, ["C", "A"]))
        return made

    def get(self, array: ClArray) -> Array:
        made = np.empty(array.shape, array.dtype)
        if array.size:
            self.cl.enqueue_copy(self.queue, made, array.buffer)
        return made

    def scope(self) -> AbstractContextManager[Any]:
        return self._lock

    def wait(self, value: Any) -> None:
        self.queue.finish()

    def timer(self) -> KernelTimer | None:
        self._timer = KernelTimer() if self._tells_times else None
        return self._timer

    def exhausted(self, error: BaseException) -> bool:
        return isinstance(error, self.cl.MemoryError | MemoryError)

    def release(self) -> None:
        self.pool.free_held()

    def memory(self) -> FreeMemory | None:
        return read_free_memory() if self.queue.device.host_unified_memory else None

    def empty(self, shape: tuple[int, ...], dtype: Any) -> ClArray:
        kind = np.dtype(dtype)
        return ClArray(shape, kind, self.pool.allocate(max(prod(shape) * kind.itemsize, 8)))

    def _built(self, source: str) -> Any:
        with warnings.catch_warnings():
            # Intel's compiler prints a message on success, and PyOpenCL warns about any output.
            warnings.simplefilter("ignore", self.cl.CompilerWarning)
            program = self.cl.Program(self.context, source).build()
        return program.all_kernels()[0]

    def run(self, source: str, items: Any, *given: Any, group: Any = None) -> None:
        """Run a kernel over `items` work items."""
        values = [v.buffer if isinstance(v, ClArray) else v for v in given]
        kernel = self.kernel(source)
        event = kernel(self.queue, items if group else (items,), group, *values)
        if self._timer is not None:
            self._timer.take(kernel.function_name, event)

    def each(self, code: str, dtype: Any, *given: Any) -> ClArray:
        """Return `code`, OpenCL C in x, y and w, applied elementwise to arrays and numbers."""
        kind = np.dtype(dtype)
        arrays = [value for value in given if isinstance(value, ClArray)]
        shape = np.broadcast_shapes(*(array.shape for array in arrays))
        made = self.empty(shape, kind)
        names, declared, reads, values = "xyw", [], [], []
        for name, value in zip(names, given, strict=False):
            if isinstance(value, ClArray):
                c_type = C_TYPES[value.dtype.char]
                declared.append(f"__global const {c_type} *{name}s")
                reads.append(f"const {c_type} {name} = {name}s[i];")
                values.append(self.strided(value, np.broadcast_to(value.layout(), shape)))
            else:
                number = np.dtype(arrays[0].dtype).type(value)
                declared.append(f"const {C_TYPES[number.dtype.char]} {name}")
                values.append(np.uint8(number) if number.dtype.kind == "b" else number)
        code = f"({code}) != 0" if kind.kind == "b" else code
        source = (
            f"__kernel void each({', '.join(declared)}, __global {C_TYPES[kind.char]} *z)"
            f" {{ const size_t i = get_global_id(0); {' '.join(reads)} z[i] = {code}; }}"
        )
        if made.size:
            self.run(source, made.size, *values, made)
        return made

    def strided(
        self, array: ClArray, view: Any, into: ClArray | None = None, at: Any = None
    ) -> Any:
        """Copy a `view` of the array's layout to a new array, or to the view `at` of `into`."""
        whole = array.layout()
        if into is None:
            if view.shape == whole.shape and view.strides == whole.strides:
                return array
            into = self.empty(view.shape, array.dtype)
            at = into.layout()
        numbers = [_offset(view, whole), _offset(at, into.layout())]
        steps = []
        for axis in reversed(range(view.ndim)):
            numbers += [view.shape[axis], view.strides[axis], at.strides[axis]]
            steps.append(f"p = i % n{axis}; i /= n{axis}; a += p * s{axis}; b += p * t{axis};")
        names = [f"const long {k}{axis}" for axis in reversed(range(view.ndim)) for k in "nst"]
        kind = C_TYPES[array.dtype.char]
        source = (
            f"__kernel void strided(__global const {kind} *x, __global {kind} *z,"
            f" {', '.join(['const long f', 'const long g', *names])})"
            f" {{ long i = get_global_id(0), p, a = f, b = g; {' '.join(steps)} z[b] = x[a]; }}"
        )
        if view.size:
            self.run(source, view.size, array, into, *map(np.int64, numbers))
        return into

    def written(self, array: ClArray, value: ClArray, index: Any) -> ClArray:
        """Return a copy of an array with a value written at an index."""
        made = self.empty(array.shape, array.dtype)
        if made.size:
            self.cl.enqueue_copy(self.queue, made.buffer, array.buffer,
                                 byte_count=array.size * array.dtype.itemsize)  # fmt: skip
        target = made.layout()[(*index, ...)]
        return self.strided(value, np.broadcast_to(value.layout(), target.shape), made, target)  # type: ignore[no-any-return]

    def concatenated(self, *given: Any) -> ClArray:
        *arrays, axis = given
        shape = list(arrays[0].shape)
        shape[axis] = sum(array.shape[axis] for array in arrays)
        made, start = self.empty(tuple(shape), arrays[0].dtype), 0
        for array in arrays:
            index = (slice(None),) * axis + (slice(start, start + array.shape[axis]),)
            self.strided(array, array.layout(), made, made.layout()[index])
            start += array.shape[axis]
        return made

    def reduced(self, name: str, array: ClArray, axes: tuple[int, ...], keep: bool) -> ClArray:
        """Return one of `REDUCTIONS` over axes, in two steps for few results of many elements."""
        begin, join = REDUCTIONS[name]
        kept = [axis for axis in range(len(array.shape)) if axis not in axes]
        moved = self.strided(array, array.layout().transpose(*kept, *axes))
        shape = tuple(1 if axis in axes else n for axis, n in enumerate(array.shape)
                      if keep or axis not in axes)  # fmt: skip
        rows = prod(shape)
        length = prod(array.shape[axis] for axis in axes)
        kind = C_TYPES[array.dtype.char]
        source = _REDUCE.replace("BEGIN", begin).replace("JOIN", join).replace("T ", f"{kind} ")
        chunk = max(64, int(length**0.5))
        while rows < _WIDE and length > 2 * chunk:
            parts = -(-length // chunk)
            made = self.empty((rows * parts,), array.dtype)
            self.run(source, rows * parts, moved, made, *map(np.int64, (length, parts, chunk)))
            moved, length = made, parts
        made = self.empty(shape, array.dtype)
        if rows:
            self.run(source, rows, moved, made, *map(np.int64, (length, 1, length)))
        return made

    def matmul(self, left: ClArray, right: ClArray) -> ClArray:
        """Return the products of the matrices in the last two axes."""
        (m, k), n = left.shape[-2:], right.shape[-1]
        front = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        a = self.strided(left, np.broadcast_to(left.layout(), (*front, m, k)))
        b = self.strided(right, np.broadcast_to(right.layout(), (*front, k, n)))
        made = self.empty((*front, m, n), left.dtype)
        size = [-(-length // _TILE) * _TILE for length in (m, n)]
        source = _MATMUL.replace("T ", f"{C_TYPES[left.dtype.char]} ")
        for place in range(prod(front) if m * n else 0):
            starts = map(np.int64, (place * m * k, place * k * n, place * m * n))
            self.run(source, size, a, b, made, *map(np.int32, (m, n, k)), *starts,
                     group=(_TILE, _TILE))  # fmt: skip
        return made


def _offset(view: Any, whole: Any) -> int:
    both = (array.__array_interface__["data"][0] for array in (view, whole))
    return int(next(both) - next(both))


_WIDE = 4096
"""With at least this many results, each is computed by one work item."""


def _is_any(backend: OpenclBackend, code: str, array: ClArray) -> bool:
    found = backend.each(code, "?", array)
    whole = backend.reduced("any", found, tuple(range(len(array.shape))), False)
    return bool(backend.get(whole))


def _beyond_dtype(backend: OpenclBackend, array: ClArray, dtype: Any) -> bool:
    """Return whether a conversion to integers overflows."""
    if dtype.kind not in "iu" or array.dtype.kind != "f":
        return False
    limits = np.iinfo(dtype)
    low, high = float(limits.min), float(limits.max)
    test = f"x > {low - 1!r} && x < {high + 1!r}" if dtype.itemsize < 4 else (
        f"x >= {low!r} && x < {high!r}")  # fmt: skip
    return _is_any(backend, f"!({test})", array)


def _lowering(cl: OpenclBackend, *, double: bool) -> Lowering:
    def each(code: str, dtype: Any = None) -> Any:
        def row(*given: Any) -> ClArray:
            arrays = [value for value in given if isinstance(value, ClArray)]
            return cl.each(code, dtype or arrays[0].dtype, *given)

        return row

    def reduction(name: str) -> Any:
        return lambda x, axes, keep: cl.reduced(name, x, axes, keep)

    functions: dict[str, Any] = {name: each(code) for name, code in (ONE | TWO).items()}
    functions |= {name: each(code, "?") for name, code in (TESTS | COMPARISONS).items()}
    functions |= {name: reduction(name) for name in REDUCTIONS}
    functions |= {
        "fixed_power": lambda x, n: cl.each(
            "sqrt(x)" if n == 0.5 else "pow(x, y)", x.dtype, x, n
        ),
        "where": lambda mask, x, y: cl.each("x ? y : w", y.dtype, mask, x, y),
        "astype": lambda x, dtype: cl.each("x", dtype, x),
        "getitem": lambda x, *rest: cl.strided(x, x.layout()[(*index_of(rest), ...)]),
        "setitem": lambda x, value, *rest: cl.written(x, value, index_of(rest)),
        "transpose": lambda x, axes: cl.strided(x, x.layout().transpose(axes)),
        "diagonal": lambda x, *rest: cl.strided(x, x.layout().diagonal(*rest)),
        "reshape": lambda x, shape: ClArray(shape, x.dtype, x.buffer),
        "broadcast_to": lambda x, shape: cl.strided(x, np.broadcast_to(x.layout(), shape)),
        "full": lambda shape, value, dtype: cl.put(np.full(shape, value, dtype)),
        "eye": lambda n, m, k, dtype: cl.put(np.eye(n, m, k, dtype)),
        "concatenate": cl.concatenated, "matmul": cl.matmul,
    }  # fmt: skip
    real = only("f", "the OpenCL kernel supports only floating-point numbers")
    whole = {"square", "negative", "positive", "absolute", "invert", "sign"}
    names = (set(ONE) | {"true_divide", "power", "arctan2", "hypot", "matmul"}) - whole
    return Lowering(
        "OpenCL", functions, frozenset("?bBhHiIlLqQfd" if double else "?bBhHiIlLqQf"),
        guards={"astype": lambda x, dtype: _beyond_dtype(cl, x, dtype),
                "fixed_power": lambda x, n: n in (0.5, -0.5)
                and _is_any(cl, "x == 0 || x == -INFINITY", x)},
        refused=dict.fromkeys(names | {"fixed_power", "isfinite", "isinf", "isnan"}, real)
        | {"invert": only("iu", "the OpenCL kernel supports only integers")},
        finite=lambda x: not _is_any(cl, "!isfinite(x)", x),
    )  # fmt: skip


def open_devices() -> list[Backend]:
    """Import PyOpenCL and return a backend for each device of each platform."""
    cl = import_module("pyopencl")
    import_module("pyopencl.tools")
    found: list[Backend] = []
    for platform in cl.get_platforms():
        for device in platform.get_devices():
            place = "gpu" if device.type & cl.device_type.GPU else "cpu"
            index = sum(other.name.startswith(f"opencl:{place}") for other in found)
            name = f"opencl:{place}:{index}" if index or place == "gpu" else "opencl:cpu"
            found.append(OpenclBackend(cl, device, name))
    return found
