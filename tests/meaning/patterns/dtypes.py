"""Dtypes inside the body: NumPy's promotion, weak Python numbers, casts, creation."""

from __future__ import annotations

import numpy as np

import gpuforge as gf
from tests.meaning.arrays import bits, cplx, ints, mat, pos, vec
from tests.meaning.pattern import pattern


@pattern(lambda: vec(4, np.float32), lambda: vec(4, np.float16), lambda: ints(4))
def weak_python_float(x):
    return x + 1.0, x * 2, x / 3, 1.0 - x


@pattern(lambda: vec(4, np.float32))
def strong_numpy_float(x):
    return x + np.float64(1), x * np.pi, x * np.float32(2), x + np.array(1.0)


@pattern(lambda: ints(4, np.uint8))
def uint8_compared_with_300(x):
    return x < 300, x == 256, x != -1, x > -5


@pattern(lambda: ints(4, np.uint8))
def uint8_plus_300(x):
    return x + 300


@pattern(lambda: ints(4, np.uint8) + np.uint8(250))
def uint8_wraps(x):
    return x + x, x * np.uint8(3), x - np.uint8(255), -x


@pattern(lambda: ints(4, np.int8) * np.int8(30))
def int8_wraps(x):
    return x + x, x * 2, x.sum(), abs(np.int8(-128) + np.zeros(1, np.int8))


@pattern(lambda: (ints(4), ints(4) + 1))
def integer_division(a, b):
    return a / b, a // b, a % b


@pattern(lambda: (ints(4, np.int32), ints(4, np.uint32)), lambda: (ints(4), ints(4, np.uint64)))
def mixed_integers(a, b):
    return a + b, a * b, a < b


@pattern(lambda: (ints(4, np.int8), vec(4, np.float16)), lambda: (ints(4), vec(4, np.float32)))
def integers_with_floats(a, b):
    return a + b, a * b, np.maximum(a, b)


@pattern(lambda: (ints(4) + 2**53, vec(4)))
def large_integers_with_floats(a, b):
    return a > b, a + 1, a - 2**53


@pattern(lambda: vec(4, np.float16))
def half_precision(x):
    return x.sum(), x.mean(), x * 1000 * 100, np.exp(x), x.var()


@pattern(lambda: mat(3, 4, np.float16))
def half_matrix_product(x):
    return x @ x.T


@pattern(lambda: cplx(4, np.complex64))
def single_complex(z):
    return z * 2, z + 1j, abs(z), z.real, z / np.float32(2), (z * np.conj(z)).sum()


@pattern(lambda: (cplx(4, np.complex64), vec(4)))
def complex_with_double(z, x):
    return z * x, z + x.astype(np.float32)


@pattern(lambda: vec(4, np.float32))
def real_times_imaginary_unit(x):
    return x * 1j, np.exp(1j * x), x + 0j


@pattern(lambda: (bits(6), ~bits(6)))
def boolean_arithmetic(a, b):
    return a + b, a * b, a | b, a & b, a ^ b, ~a, a + 1, a * 2.5, a / 2


@pattern(lambda: (bits(4), bits(4)))
def boolean_subtract(a, b):
    return a - b


@pattern(lambda: bits(4))
def boolean_negative(a):
    return -a


@pattern(lambda: bits(6))
def boolean_sums(a):
    return a.sum().dtype, np.cumsum(a), a.mean(), a @ a, a.max(), np.prod(a)


@pattern(lambda: (vec(4, np.float32), 2.5))
def ones_times_number(x, s):
    xp = gf.namespace(x)
    return xp.ones(4, dtype=x.dtype) * s


@pattern(lambda: (vec(4, np.float32), 2.5))
def default_ones_times_number(x, s):
    xp = gf.namespace(x)
    return xp.ones(3) * s, xp.zeros(2), xp.arange(3), xp.full(2, 7), xp.linspace(0, 1, 3)


@pattern(lambda: vec(4, np.float32))
def default_creation(x):
    return x + np.ones(4), x * np.arange(4), np.full(4, 2) * x, np.zeros(4, x.dtype) + x


@pattern(lambda: vec(4, np.float32))
def creation_like(x):
    return np.zeros_like(x), np.ones_like(x, dtype=int), np.empty_like(x).shape, np.full_like(x, 3)


@pattern(lambda: ints(4))
def full_like_truncates(x):
    return np.full_like(x, 2.7), np.full(3, True), np.full(2, 1 + 2j)


@pattern(lambda: vec(4))
def where_with_python_numbers(x):
    return np.where(x > 0, 1, 0), np.where(x > 0, x, 0), np.where(x > 0, 1.0, 0).dtype


@pattern(lambda: vec(4, np.float32))
def where_keeps_single(x):
    return np.where(x > 0, x, 0.0), np.where(x > 0, x, np.float64(0)), np.where(x > 0, x, np.nan)


@pattern(lambda: ints(6, np.int32))
def reductions_of_int32(x):
    return x.sum(), x.prod(), x.cumsum(), x.mean(), x.max(), np.dot(x, x)


@pattern(lambda: ints(6, np.uint8))
def reductions_of_uint8(x):
    return x.sum(), x.sum(dtype=np.uint8), x.mean(), x.std(), x.max() + 1


@pattern(lambda: vec(4))
def astype_truncates(x):
    return x.astype(int), x.astype(np.int8), x.astype(bool), x.astype(str)


@pattern(lambda: pos(4) * 200)
def astype_of_too_large(x):
    return (x * 1000).astype(np.int32), x.astype(np.int64).astype(np.uint8)


@pattern(lambda: vec(4, np.float32))
def sums_in_double(x):
    return x.sum(dtype=np.float64), np.mean(x, dtype=np.float64), np.add(x, x, dtype=np.float64)


@pattern(lambda: vec(4, np.float32))
def float32_constants(x):
    return 0.1 * x, x**2, x**0.5 if (x > 0).all() else x**3, 2**x, np.float32(0.1) + x


@pattern(lambda: ints(4))
def powers_of_integers(x):
    return x**2, x**2.0, 2**x, x**0, np.power(x, 3), np.power(2.0, x)


@pattern(lambda: ints(4))
def functions_of_integers(x):
    return np.sqrt(x), np.exp(x), np.sin(x), np.abs(x), np.sign(x), np.floor(x), np.square(x)


@pattern(lambda: ints(4, np.int16))
def functions_of_int16(x):
    return np.sqrt(x), np.exp(x), np.round(x), np.mean(x), np.linalg.norm(x)


@pattern(lambda: ints(4, np.uint8))
def functions_of_uint8(x):
    return np.sqrt(x), np.sin(x), x / x.max(), x * 0.5, x // 2, np.clip(x, 1, 3)


@pattern(lambda: bits(4))
def functions_of_booleans(x):
    return np.sqrt(x), np.exp(x), np.where(x, 1, 2), np.logical_not(x)


@pattern(lambda: ints(5))
def bit_operations(x):
    return x << 2, x >> 1, x & 1, x | 8, x ^ 3, ~x, np.invert(x), np.bitwise_or.reduce(x)


@pattern(lambda: ints(5, np.uint16))
def unsigned_differences(x):
    return np.diff(x), x - x.max(), x[::-1] - x


@pattern(lambda: np.array([2**62, 2**62, 5]))
def int64_sum_wraps(x):
    return x.sum(), x + x, x * 4


@pattern(lambda: np.array([1, 2], np.uint64))
def uint64_minus(x):
    return x - np.uint64(3), x + 1, x * 2.0, x // 2


@pattern(lambda: mat(2, 3, np.float32))
def matmul_of_mixed(x):
    return x @ np.arange(3), x @ np.ones(3), x @ np.ones(3, np.float32)


@pattern(lambda: vec(4, np.float32))
def scalars_keep_dtype(x):
    s = x[0]
    return s + 1, s * 0.1, s / 3, s * np.ones(2), s**2, -s


@pattern(lambda: vec(4, np.float32))
def reduction_scalar_promotes(x):
    m = x.mean()
    return x - m, x.astype(np.float64) - m, m * 2.0, m + np.float64(1)


@pattern(lambda: np.float32(0.1))
def single_scalar_argument(s):
    return s * 3, s + 0.1, np.sqrt(s), s * np.ones(2)


@pattern(lambda: (vec(3), vec(3, np.float32)))
def concatenate_promotes(a, b):
    return np.concatenate([a, b]), np.stack([b, b]), np.hstack([b, [1, 2]]), np.append(b, 1)


@pattern(lambda: ints(3))
def array_of_mixed(x):
    return np.array([x[0], 2.5, 3]), np.array([x, x + 0.5]), np.array([x[0], x[1]])


@pattern(lambda: vec(3, np.float32))
def result_type_and_promote(x):
    return np.result_type(x, 1.0), np.promote_types(x.dtype, int), np.can_cast(x.dtype, float)


@pattern(lambda: vec(3, np.float32))
def finfo_eps(x):
    eps = np.finfo(x.dtype).eps
    return x / (np.abs(x).max() + eps), eps


@pattern(lambda: ints(3, np.int16))
def iinfo_limits(x):
    return x.astype(float) / np.iinfo(x.dtype).max


@pattern(lambda: vec(4), lambda: vec(4, np.float32))
def dtype_attributes(x):
    return x.dtype, x.dtype.name, x.dtype.kind, x.dtype.itemsize, str(x.dtype), x.dtype == float


@pattern(lambda: vec(4))
def astype_by_names(x):
    return x.astype("f4"), x.astype("float16"), x.astype("complex64"), x.astype(x.dtype)


@pattern(lambda: ints(4))
def mean_of_integers_rounds(x):
    return x.mean().astype(int), int(x.mean()), round(x.mean(), 2), np.rint(x / 2).astype(int)


@pattern(lambda: np.array([200, 100, 50], np.uint8))
def image_arithmetic(img):
    grey = img * 0.5 + 64
    return np.clip(grey, 0, 255).astype(np.uint8), img.astype(np.int16) - 128


@pattern(lambda: np.array([200, 100, 50], np.uint8))
def image_average_overflows(img):
    return (img + img) // 2, (img.astype(float) + img) / 2


@pattern(lambda: vec(3), lambda: vec(3, np.float32))
def complex_from_parts(x):
    return x + 1j * x[::-1], np.sqrt(x.astype(complex)), np.abs(x + 1j * x)


@pattern(lambda: ints(4, np.int8))
def python_int_out_of_range(x):
    return x + 1000


@pattern(lambda: vec(4, np.float32))
def huge_python_number(x):
    return x * 1e300, x + 1e-300
