"""Functions written against the Array API: the namespace comes from the array."""

from __future__ import annotations

import numpy as np

import gpuforge as gf
from tests.meaning.arrays import bits, cplx, ints, mat, pos, spd, vec
from tests.meaning.pattern import pattern


@pattern(lambda: vec(4))
def elementwise(x):
    xp = gf.namespace(x)
    return xp.exp(-xp.abs(x)) + xp.sin(x) * xp.tanh(x)


@pattern(lambda: mat())
def reductions(x):
    xp = gf.namespace(x)
    return xp.sum(x), xp.mean(x, axis=0), xp.max(x, axis=1, keepdims=True), xp.prod(x), xp.std(x)


@pattern(lambda: mat())
def correction(x):
    xp = gf.namespace(x)
    return xp.var(x, correction=1), xp.std(x, axis=0, correction=1)


@pattern(lambda: mat())
def astype_and_cast(x):
    xp = gf.namespace(x)
    return xp.astype(x, xp.float32), xp.astype(x > 0, xp.int64), xp.sum(x > 0)


@pattern(lambda: vec(5))
def creation(x):
    xp = gf.namespace(x)
    return xp.arange(5, dtype=x.dtype) * x, xp.eye(2), xp.linspace(0, 1, 3), xp.full((2,), 3.0)


@pattern(lambda: vec(5))
def creation_like(x):
    xp = gf.namespace(x)
    return (
        xp.zeros_like(x),
        xp.ones_like(x, dtype=xp.int32),
        xp.full_like(x, 2),
        xp.empty_like(x).shape,
    )


@pattern(lambda: (vec(3), pos(3)))
def joining(a, b):
    xp = gf.namespace(a, b)
    return xp.concat([a, b]), xp.stack([a, b], axis=1), xp.unstack(xp.stack([a, b]))


@pattern(lambda: mat())
def shaping(x):
    xp = gf.namespace(x)
    return xp.reshape(x, (4, 3)), xp.permute_dims(x, (1, 0)), xp.expand_dims(x, axis=1), xp.flip(x)


@pattern(lambda: vec(6))
def searching(x):
    xp = gf.namespace(x)
    return (
        xp.argmax(x),
        xp.where(x > 0, x, xp.zeros_like(x)),
        xp.nonzero(x > 0),
        xp.searchsorted(xp.sort(x), x),
    )


@pattern(lambda: vec(6))
def sorting(x):
    xp = gf.namespace(x)
    return xp.sort(x), xp.argsort(x, stable=True), xp.flip(xp.sort(x))


@pattern(lambda: ints(6))
def sets(x):
    xp = gf.namespace(x)
    return xp.unique_values(x), xp.unique_counts(x).counts, type(xp.unique_all(x)).__name__


@pattern(lambda: (mat(2, 3), mat(3, 2)))
def products(a, b):
    xp = gf.namespace(a, b)
    return xp.matmul(a, b), xp.tensordot(a, b, axes=1), xp.vecdot(a, xp.matrix_transpose(b)), a.mT


@pattern(lambda: spd(3))
def linear_algebra(a):
    xp = gf.namespace(a)
    return xp.linalg.inv(a), xp.linalg.det(a), xp.linalg.vector_norm(a), xp.linalg.trace(a)


@pattern(lambda: vec(8))
def transforms(x):
    xp = gf.namespace(x)
    return xp.fft.fft(xp.astype(x, xp.complex128)), xp.fft.rfft(x), xp.fft.fftfreq(8)


@pattern(lambda: ints(4, np.uint8))
def promotion(x):
    xp = gf.namespace(x)
    return (
        xp.result_type(x.dtype, xp.int16),
        x + xp.asarray(1, dtype=xp.int16),
        xp.isdtype(x.dtype, "integral"),
    )


@pattern(lambda: vec(3, np.float32))
def limits(x):
    xp = gf.namespace(x)
    return xp.finfo(x.dtype).eps, float(xp.finfo(xp.float32).max), xp.iinfo(xp.int8).min


@pattern(lambda: vec(4))
def constants(x):
    xp = gf.namespace(x)
    return x * xp.pi, xp.e, xp.inf > x, xp.isnan(x * xp.nan), x[xp.newaxis, :]


@pattern(lambda: (bits(4), ~bits(4)))
def logic(a, b):
    xp = gf.namespace(a)
    return xp.logical_and(a, b), xp.any(a), xp.all(a), xp.count_nonzero(a)


@pattern(lambda: cplx(4))
def complex_numbers(z):
    xp = gf.namespace(z)
    return xp.real(z), xp.conj(z), xp.abs(z), xp.imag(z)


@pattern(lambda: (vec(6), np.array([2, 0, 2])))
def gathers(x, k):
    xp = gf.namespace(x)
    return xp.take(x, k), xp.take_along_axis(x, k, axis=0) if hasattr(xp, "take_along_axis") else 0


@pattern(lambda: mat())
def standardise(x):
    xp = gf.namespace(x)
    return (x - xp.mean(x, axis=0)) / xp.std(x, axis=0)


@pattern(lambda: mat())
def softmax(x):
    xp = gf.namespace(x)
    e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
    return e / xp.sum(e, axis=-1, keepdims=True)


@pattern(lambda: vec(4))
def writes_through_namespace(x):
    xp = gf.namespace(x)
    y = xp.zeros_like(x)
    y[1:] = x[:-1]
    y[0] = xp.sum(x)
    return y


@pattern(lambda: vec(4))
def asarray_copies(x):
    xp = gf.namespace(x)
    y = xp.asarray(x, copy=True)
    y[0] = 0
    return y, x, xp.asarray([1.0, 2.0])


@pattern(lambda: vec(4), lambda: vec(4, np.float32))
def mixed_with_numpy(x):
    xp = gf.namespace(x)
    return xp.sum(np.sin(x)), np.sum(xp.sin(x)), xp.asarray(np.ones(4)) + x


@pattern(lambda: mat(2, 3))
def namespace_of_method(x):
    xp = x.__array_namespace__()
    return xp.sum(x, axis=0), xp.sqrt(xp.abs(x))


@pattern(lambda: vec(4))
def device_and_shape(x):
    xp = gf.namespace(x)
    return x.shape, x.ndim, xp.zeros(x.shape).shape, x.size


@pattern(lambda: (vec(3), 2), lambda: (vec(3), 2.5))
def helper_takes_namespace(x, s):
    def scale(xp, v):
        return xp.multiply(v, xp.asarray(s, dtype=v.dtype))

    return scale(gf.namespace(x), x)


@pattern(lambda: mat(3, 3))
def triangles(x):
    xp = gf.namespace(x)
    return xp.tril(x), xp.triu(x, k=1), xp.linalg.diagonal(x)


@pattern(lambda: vec(6))
def cumulative(x):
    xp = gf.namespace(x)
    return xp.cumulative_sum(x), xp.diff(x), xp.clip(x, -1, 1), xp.round(x)


@pattern(lambda: vec(3))
def broadcasting(x):
    xp = gf.namespace(x)
    a, b = xp.broadcast_arrays(x, xp.ones((2, 1)))
    return a + b, xp.broadcast_to(x, (2, 3)), xp.meshgrid(x, x, indexing="ij")[0]


@pattern(lambda: (vec(3), 0.0))
def guarded_by_python(x, k):
    xp = gf.namespace(x)
    if float(xp.sum(x)) > k:
        return xp.sqrt(xp.abs(x))
    return x
