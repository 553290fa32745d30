"""Functions as libraries write them: inputs checked and converted, axes and dtypes settled."""

from __future__ import annotations

import numbers
import operator
from collections.abc import Sequence

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from tests.meaning.arrays import bits, cube, holes, ints, mat, pos, spd, vec
from tests.meaning.pattern import call, pattern, scene


@pattern(lambda: vec(5), lambda: vec(5).tolist(), lambda: ints(5))
def asarray_of_floats(x):
    x = np.asarray(x, dtype=float)
    return (x - x.mean()) / x.std()


@pattern(lambda: vec(5), lambda: mat(), lambda: 2.0)
def atleast_and_squeeze_back(x):
    x = np.atleast_1d(np.asarray(x))
    y = np.exp(-(x**2))
    return y[()] if y.ndim else y.item()


@pattern(lambda: (mat(), -1), lambda: (mat(), 0), lambda: (mat(), 2))
def normalised_axis(x, axis):
    x = np.asanyarray(x)
    axis = normalize_axis_index(axis, x.ndim)
    y = np.moveaxis(x, axis, -1)
    return np.moveaxis(np.cumsum(y, axis=-1), -1, axis)


@pattern(lambda: vec(5), lambda: ints(5), lambda: bits(5), lambda: vec(5, np.float32))
def floats_kept_others_converted(x):
    if not np.issubdtype(x.dtype, np.floating):
        x = x.astype(np.float64)
    return np.sqrt(np.abs(x))


@pattern(lambda: call(vec(5)), lambda: call(vec(5), copy=False), lambda: call(vec(5), copy=True))
def copy_option(x, copy=True):
    x = np.array(x, copy=True) if copy else x
    x -= x.min()
    return x / x.max()


@pattern(lambda: (vec(5), None), lambda: (vec(5), np.empty(5)))
def out_option(x, out=None):
    if out is None:
        out = np.empty_like(x)
    np.multiply(x, x, out=out)
    np.sqrt(out, out)
    return out


@pattern(lambda: (vec(4), vec(4)), lambda: (vec(4), vec(3)), lambda: (mat(2, 2), vec(2)))
def checked_shapes(a, b):
    if a.shape != b.shape:
        raise ValueError(f"shapes {a.shape} and {b.shape} differ")
    return np.sqrt(((a - b) ** 2).mean())


@pattern(lambda: mat(), lambda: vec(4), lambda: np.full((2, 2), np.nan))
def checked_array(x):
    x = np.asarray(x)
    if x.ndim != 2:
        raise ValueError(f"expected 2 dimensions, got {x.ndim}")
    if not np.isfinite(x).all():
        raise ValueError("input contains NaN or infinity")
    return x.T @ x


@pattern(lambda: (vec(5), 2), lambda: (vec(5), 2.5), lambda: (vec(5), np.int64(2)))
def checked_integer(x, n):
    try:
        n = operator.index(n)
    except TypeError:
        raise TypeError("n must be an integer") from None
    return x[:n].sum() * n


@pattern(lambda: (vec(4), 2), lambda: (vec(4), np.float64(2)), lambda: (vec(4), pos(4)))
def number_or_array(x, s):
    if isinstance(s, numbers.Number):
        return x * s
    return x * s[:, None]


@pattern(lambda: (cube(), (0, 1)), lambda: (cube(), 1), lambda: (cube(), None))
def axes_as_tuple(x, axis):
    if axis is None:
        axis = tuple(range(x.ndim))
    elif not isinstance(axis, Sequence):
        axis = (axis,)
    n = np.prod([x.shape[a] for a in axis])
    return x.sum(axis=axis) / n


@pattern(lambda: (vec(4), pos(3)[:, None]))
def broadcast_then_work(a, b):
    a, b = np.broadcast_arrays(a, b)
    return np.where(a > b, a, b), np.broadcast_shapes(a.shape, b.shape)


@pattern(lambda: vec(6), lambda: vec(6)[::2], lambda: np.asfortranarray(mat()))
def contiguous_copy(x):
    y = np.ascontiguousarray(x, dtype=np.float64)
    return y.ravel(), y.flags["C_CONTIGUOUS"]


@pattern(lambda: (vec(5), pos(5)), lambda: (vec(5, np.float32), pos(5)))
def common_dtype(a, b):
    dtype = np.result_type(a, b)
    out = np.zeros((2, len(a)), dtype=dtype)
    out[0], out[1] = a, b
    return out.mean(axis=0)


@pattern(lambda: vec(5), lambda: vec(5, np.float32), lambda: vec(5, np.float16))
def tolerance_of_dtype(x):
    tiny = np.finfo(x.dtype).tiny
    return x / np.maximum(np.linalg.norm(x), tiny)


@pattern(lambda: holes(6), lambda: vec(6))
def nan_policy(x):
    contains = np.isnan(np.sum(x))
    if contains:
        x = x[~np.isnan(x)]
    return x.mean(), bool(contains), len(x)


@pattern(lambda: (vec(6), None), lambda: (vec(6), pos(6)))
def weights_checked(x, weights):
    if weights is None:
        weights = np.full(x.shape, 1 / x.size)
    weights = weights / weights.sum()
    if not np.isclose(weights.sum(), 1.0):
        raise ValueError("weights do not sum to 1")
    return np.dot(x, weights), np.sqrt(np.dot((x - x.mean()) ** 2, weights))


@pattern(lambda: call(vec(6), bins=3), lambda: call(vec(6), bins=[-5, 0, 5]))
def bins_number_or_edges(x, bins):
    edges = np.linspace(x.min(), x.max(), bins + 1) if np.ndim(bins) == 0 else np.asarray(bins)
    k = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, len(edges) - 2)
    return np.bincount(k, minlength=len(edges) - 1), edges


@pattern(lambda: (vec(6), vec(6)), lambda: (vec(6), None))
def pair_or_self(x, y=None):
    y = x if y is None else y
    return np.subtract.outer(x, y).max(), y is x


@pattern(lambda: (spd(3), vec(3)), lambda: (np.zeros((3, 3)), vec(3)))
def solve_or_least_squares(a, b):
    try:
        return np.linalg.solve(a, b), "exact"
    except np.linalg.LinAlgError:
        return np.linalg.lstsq(a, b, rcond=None)[0], "least squares"


@pattern(lambda: mat(4, 3))
def result_object_with_fields(x):
    from types import SimpleNamespace

    mean = x.mean(axis=0)
    return SimpleNamespace(mean=mean, centred=x - mean, n=len(x), ok=bool(mean.any()))


@scene
def fit_then_predict(offload):
    class Scaler:
        @offload
        def fit(self, x):
            self.mean_ = x.mean(axis=0)
            self.scale_ = x.std(axis=0)
            self.n_features_ = x.shape[1]
            return self

        @offload
        def transform(self, x):
            return (x - self.mean_) / self.scale_

        def get_state(self):
            return dict(self.__dict__)

    s = Scaler()
    a = s.fit(mat(4, 3)).transform(mat(2, 3))
    s.mean_[0] = 0
    return a, s.transform(mat(2, 3)), s.get_state()


@scene
def incremental_fit(offload):
    class Regression:
        def __init__(self):
            self.xtx, self.xty = np.zeros((2, 2)), np.zeros(2)

        @offload
        def partial_fit(self, x, y):
            self.xtx += x.T @ x
            self.xty += x.T @ y
            self.coef_ = np.linalg.solve(self.xtx + 0.1 * np.eye(2), self.xty)
            return self

        @offload
        def predict(self, x):
            return x @ self.coef_

    r = Regression()
    for k in range(1, 4):
        r.partial_fit(mat(4, 2) * k, vec(4))
    return r.predict(mat(3, 2)), r


@scene
def pickled_model(offload):
    import pickle

    state = {}

    @offload
    def fit(x):
        state["w"] = x.mean(axis=0)
        state["range"] = x.max() - x.min()

    fit(mat())
    copy = pickle.loads(pickle.dumps(state))
    return copy, float(copy["range"]), np.asarray(state["w"]) * 2


@scene
def rolling_cache_of_arrays(offload):
    cache = {}

    @offload
    def smooth(x, key):
        if key not in cache:
            cache[key] = np.convolve(x, np.ones(3) / 3, mode="same")
        return cache[key]

    a = smooth(vec(6), "a")
    b = smooth(pos(6), "b")
    a[0] = 100
    return a, b, smooth(vec(6), "a") is a, cache
