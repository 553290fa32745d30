"""PyOpenCL on any OpenCL device: elementwise functions, reductions and matrix products.

A small Array API namespace over float32 and, where the device has it, float64. What it lacks makes
it no candidate: other dtypes, empty arrays, broadcasting between arrays, indexing, comparisons.
PoCL ends the process where an allocation fails.

Sources: OpenCL C specification, "Relative Error as ULPs" (exp 3, sin 4, pow 16 units); PyOpenCL
reference, page "Elementwise" (its "Reduction" needs a templating engine).
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from functools import cache, partial
from importlib import import_module
from math import prod
from types import ModuleType
from typing import Any

import numpy as np

from gpuforge.detect.free_memory import FreeMemory, read_free_memory
from gpuforge.runtime.backends import Array, Backend, NotExact

LIBRARY = "pyopencl"
_SAME_NAME = (
    "exp expm1 log log1p log2 log10 sqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh"
    " atanh floor ceil trunc"
)
FUNCTIONS = {name: f"{name}(x)" for name in _SAME_NAME.split()}
FUNCTIONS |= {"abs": "fabs(x)", "square": "x * x", "negative": "-x", "positive": "x"}
FUNCTIONS["round"] = "rint(x)"
"""name -> OpenCL C of one element"""
OPERATIONS = {"add": "x + y", "subtract": "x - y", "multiply": "x * y", "divide": "x / y"}
OPERATIONS |= {"pow": "pow(x, y)", "atan2": "atan2(x, y)", "hypot": "hypot(x, y)"}
OPERATIONS["maximum"] = "(isnan(x) || x >= y) ? x : y"
OPERATIONS["minimum"] = "(isnan(x) || x <= y) ? x : y"
REDUCTIONS = {
    "sum": ("0", "a + b"),
    "prod": ("1", "a * b"),
    "max": ("-INFINITY", "(isnan(a) || a >= b) ? a : b"),
    "min": ("INFINITY", "(isnan(a) || a <= b) ? a : b"),
}
"""name -> neutral element, OpenCL C that joins a and b"""
DEVIATIONS = {
    "dtype": "only float32 and float64 are computed here",
    "empty": "OpenCL has no empty buffers",
    "broadcast": "arrays of different shapes are not broadcast here",
    "axis": "reductions go over all axes here",
}
"""what is refused -> why"""
_C_TYPES = {"float32": "float", "float64": "double"}
_MATMUL = """
#define T 16
__kernel void product(__global const REAL *a, __global const REAL *b, __global REAL *c,
                      const int m, const int n, const int k) {
    __local REAL left[T][T], right[T][T];
    const int row = get_global_id(0), column = get_global_id(1);
    const int i = get_local_id(0), j = get_local_id(1);
    REAL total = 0;
    for (int start = 0; start < k; start += T) {
        left[i][j] = row < m && start + j < k ? a[(long) row * k + start + j] : 0;
        right[i][j] = column < n && start + i < k ? b[(long) (start + i) * n + column] : 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int p = 0; p < T && start + p < k; p++) total += left[i][p] * right[p][j];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (row < m && column < n) c[(long) row * n + column] = total;
}
"""
_TILE, _ROOT = 16, ("pow", 0.5)  # NumPy takes a square root: others for -0 and -inf
_REDUCE = """
__kernel void partial(__global const REAL *x, __global REAL *parts, const long n) {
    REAL a = NEUTRAL;
    for (long i = get_global_id(0); i < n; i += get_global_size(0)) {
        const REAL b = x[i];
        a = JOIN;
    }
    parts[get_global_id(0)] = a;
}
"""
_PARTS = 4096  # work items of a reduction; NumPy joins what each of them made


class ClArray:
    """A C-contiguous array on one device. Immutable, as far as its users can tell."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, backend: OpenclBackend, data: Any) -> None:
        self.backend = backend
        self.data = data

    shape = property(lambda self: self.data.shape)
    ndim = property(lambda self: len(self.data.shape))
    size = property(lambda self: prod(self.data.shape))
    dtype = property(lambda self: self.data.dtype)

    def __array_namespace__(self, api_version: str | None = None) -> ModuleType:
        return self.backend.namespace()

    def __float__(self) -> float:
        return float(self.backend.get(self))

    def __neg__(self) -> Any:
        return self.backend.apply("negative", self)

    def __abs__(self) -> Any:
        return self.backend.apply("abs", self)

    def __matmul__(self, other: Any) -> Any:
        return self.backend.matmul(self, other)


def _operator(name: str, *, swapped: bool = False) -> Any:
    def combined(self: ClArray, other: Any) -> Any:
        pair = (other, self) if swapped else (self, other)
        return self.backend.combine(name, *pair)

    return combined


_SYMBOLS = {"add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "pow": "pow"}
for _name, _symbol in _SYMBOLS.items():
    setattr(ClArray, f"__{_symbol}__", _operator(_name))
    setattr(ClArray, f"__r{_symbol}__", _operator(_name, swapped=True))


class OpenclBackend(Backend):
    """One OpenCL device with a queue; calls take turns, since its kernels hold arguments."""

    dies_when_short = True

    def __init__(self, cl: Any, device: Any, name: str) -> None:
        self.cl = cl
        self.name = name
        self.version = str(cl.VERSION_TEXT)
        self.context = cl.Context([device])
        self.queue = cl.CommandQueue(self.context)
        self.arrays = import_module("pyopencl.array")
        self.pool = cl.tools.MemoryPool(cl.tools.ImmediateAllocator(self.queue))
        self.kinds = "fd" if device.double_fp_config else "f"
        self._lock = threading.RLock()
        self._namespace = _make_namespace(self)
        self.kernel = cache(self._elementwise)
        self.reduction = cache(self._reduction)
        self.product = cache(self._product)

    def namespace(self) -> ModuleType:
        return self._namespace

    def put(self, array: Array, *, share: bool) -> ClArray:
        """Return a copy of `array` on the device.

        Raises
        ------
        NotExact
            If its dtype or emptiness is not to be had there.
        """
        if array.dtype.char not in self.kinds:
            raise NotExact(f"dtype {array.dtype}: {DEVIATIONS['dtype']}")
        if not array.size:
            raise NotExact(DEVIATIONS["empty"])
        flags = array.flags
        if not (flags.c_contiguous and flags.aligned and array.dtype.isnative):
            array = np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
        with self._lock:  # the library's to_device and get keep each host array for a dozen more
            made = self._empty(array.shape, array.dtype)
            self.cl.enqueue_copy(self.queue, made.data.base_data, array)
        return made

    def get(self, array: ClArray) -> Array:
        made = np.empty(array.shape, array.dtype)
        self.cl.enqueue_copy(self.queue, made, array.data.base_data)
        return made

    def is_array(self, value: Any) -> bool:
        return isinstance(value, ClArray) and value.backend is self

    def scope(self) -> AbstractContextManager[Any]:
        return self._lock

    def wait(self, value: Any) -> None:
        self.queue.finish()

    def exhausted(self, error: BaseException) -> bool:
        return isinstance(error, self.cl.MemoryError | MemoryError)

    def release(self) -> None:
        self.pool.free_held()

    def memory(self) -> FreeMemory | None:
        return read_free_memory() if self.queue.device.host_unified_memory else None

    def apply(self, name: str, array: ClArray) -> ClArray:
        """Return one of `FUNCTIONS` of each element."""
        made = self._empty(array.shape, array.dtype)
        self.kernel(FUNCTIONS[name], array.dtype.name, "array")(made.data, array.data)
        return made

    def combine(self, name: str, left: Any, right: Any) -> ClArray:
        """Return one of `OPERATIONS` of each pair of elements, or of each and a number."""
        pair = (left, right)
        arrays = [v for v in pair if isinstance(v, ClArray)]
        if not all(isinstance(v, ClArray | int | float) for v in pair) or (name, right) == _ROOT:
            raise NotExact(f"{type(left).__name__} with {type(right).__name__} is not computed")
        if any(a.shape != arrays[0].shape for a in arrays):
            raise NotExact(DEVIATIONS["broadcast"])
        dtype = np.result_type(*(v.dtype if isinstance(v, ClArray) else v for v in pair))
        kinds = ",".join(v.dtype.name if isinstance(v, ClArray) else "number" for v in pair)
        made = self._empty(arrays[0].shape, dtype)
        values = (v.data if isinstance(v, ClArray) else dtype.type(v) for v in pair)
        self.kernel(OPERATIONS[name], dtype.name, kinds)(made.data, *values)
        return made

    def reduce(self, name: str, array: ClArray, axis: None = None) -> ClArray:
        """Return one of `REDUCTIONS` over all elements."""
        if axis is not None:
            raise NotExact(DEVIATIONS["axis"])
        parts = self._empty((min(array.size, _PARTS),), array.dtype)
        self.reduction(name, array.dtype.name)(
            self.queue, parts.shape, None, array.data.data, parts.data.data, np.int64(array.size)
        )
        return self.put(np.asarray(getattr(np, name)(self.get(parts))), share=False)

    def matmul(self, left: ClArray, right: ClArray) -> ClArray:
        """Return the product of two matrices of one dtype."""
        if not (isinstance(left, ClArray) and isinstance(right, ClArray)):
            raise NotExact("only two matrices are multiplied here")
        if left.ndim != 2 or right.ndim != 2 or left.dtype != right.dtype:
            raise NotExact("only two matrices of one dtype are multiplied here")
        (m, k), (other, n) = left.shape, right.shape
        if k != other:
            raise ValueError(f"matmul of {left.shape} and {right.shape}")
        made = self._empty((m, n), left.dtype)
        size = [-(-length // _TILE) * _TILE for length in (m, n)]
        self.product(left.dtype.name)(
            self.queue, size, (_TILE, _TILE), left.data.data, right.data.data, made.data.data,
            np.int32(m), np.int32(n), np.int32(k),
        )  # fmt: skip
        return made

    def _empty(self, shape: tuple[int, ...], dtype: Any) -> ClArray:
        return ClArray(self, self.arrays.Array(self.queue, shape, dtype, allocator=self.pool))

    def _elementwise(self, code: str, dtype: str, kinds: str) -> Any:
        """Return the kernel of an element's `code`; `kinds` are the dtypes of its operands."""
        result = _C_TYPES[dtype]
        operands = kinds.split(",") if "," in kinds else [dtype]
        declared = [
            f"{result} {n}" if kind == "number" else f"__global const {_C_TYPES[kind]} *{n}"
            for n, kind in zip("uv", operands, strict=False)
        ]
        reads = [
            f"const {result} {target} = {n}{'' if kind == 'number' else '[i]'};"
            for target, n, kind in zip("xy", "uv", operands, strict=False)
        ]
        return import_module("pyopencl.elementwise").ElementwiseKernel(
            self.context,
            f"__global {result} *z, {', '.join(declared)}",
            f"{' '.join(reads)} z[i] = {code};",
        )

    def _reduction(self, name: str, dtype: str) -> Any:
        neutral, join = REDUCTIONS[name]
        source = _REDUCE.replace("REAL", _C_TYPES[dtype])
        source = source.replace("NEUTRAL", neutral).replace("JOIN", join)
        return self.cl.Program(self.context, source).build().partial

    def _product(self, dtype: str) -> Any:
        source = _MATMUL.replace("REAL", _C_TYPES[dtype])
        return self.cl.Program(self.context, source).build().product


def _make_namespace(backend: OpenclBackend) -> ModuleType:
    made = ModuleType("gpuforge_opencl")
    methods = ((FUNCTIONS, backend.apply), (OPERATIONS, backend.combine))
    for names, method in (*methods, (REDUCTIONS, backend.reduce)):
        for name in names:
            setattr(made, name, partial(method, name))
    vars(made)["matmul"] = backend.matmul
    vars(made).update({name: np.dtype(name) for name in _C_TYPES})
    return made


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
