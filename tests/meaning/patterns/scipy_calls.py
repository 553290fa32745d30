"""Arrays handed to SciPy."""

from __future__ import annotations

import numpy as np
from scipy import (
    fft,
    integrate,
    interpolate,
    linalg,
    ndimage,
    optimize,
    signal,
    sparse,
    spatial,
    special,
    stats,
)

from tests.meaning.arrays import mat, pos, spd, vec
from tests.meaning.pattern import pattern


@pattern(lambda: mat(5, 5))
def gaussian_filter(x):
    return ndimage.gaussian_filter(x, 1.0) - x.mean()


@pattern(lambda: mat(5, 5))
def labels_of_regions(x):
    labels, n = ndimage.label(x > 0)
    return labels, n, ndimage.sum(x, labels, range(1, n + 1))


@pattern(lambda: mat(4, 4))
def ndimage_with_output(x):
    out = np.empty_like(x)
    ndimage.uniform_filter(x, 3, output=out)
    return out, ndimage.maximum_filter(x, size=2), ndimage.rotate(x, 90)


@pattern(lambda: pos(5))
def special_functions(x):
    return special.gamma(x), special.erf(x), special.jv(0, x), special.expit(x) * 2


@pattern(lambda: mat(2, 3))
def special_logsumexp(x):
    return special.logsumexp(x, axis=1), special.softmax(x, axis=0)


@pattern(lambda: (vec(8), pos(8)))
def statistics_functions(x, y):
    return stats.pearsonr(x, y)[0], stats.zscore(x), stats.norm.pdf(x).sum()


@pattern(lambda: spd(3))
def scipy_linear_algebra(a):
    lu, p = linalg.lu_factor(a)
    return (
        linalg.lu_solve((lu, p), np.ones(3)),
        linalg.expm(a * 0.01),
        linalg.cholesky(a, lower=True),
    )


@pattern(lambda: np.linspace(0, 3, 6))
def scipy_interpolation(x):
    return interpolate.CubicSpline(x, np.sin(x))(1.1), interpolate.interp1d(x, x**2)([0.5, 1.5])


@pattern(lambda: vec(3))
def scipy_minimise(x):
    r = optimize.minimize(lambda v: ((v - 1) ** 2).sum(), x)
    return np.round(r.x, 4), r.success


@pattern(lambda: (np.arange(6.0), 2.5))
def scipy_curve_fit(x, a):
    p, _ = optimize.curve_fit(lambda t, k, c: k * t + c, x, a * x + 1)
    return p


@pattern(lambda: vec(2))
def scipy_ode(y):
    s = integrate.solve_ivp(lambda t, v: -v, (0, 1), y, rtol=1e-8)
    return np.round(s.y[:, -1], 5)


@pattern(lambda: vec(16))
def scipy_signal(x):
    b, a = signal.butter(2, 0.3)
    return signal.lfilter(b, a, x), signal.find_peaks(x)[0], signal.detrend(x)


@pattern(lambda: vec(8))
def scipy_fft(x):
    return fft.dct(x), fft.next_fast_len(7), fft.rfft(x)


@pattern(lambda: mat(6, 2))
def nearest_neighbours(p):
    d, k = spatial.cKDTree(p).query(p, k=2)
    return d[:, 1], k.shape, spatial.distance.pdist(p)


@pattern(lambda: (sparse.csr_matrix(np.eye(3) * 2), vec(3)))
def sparse_matrix_argument(m, x):
    return m @ x, m.sum()


@pattern(lambda: mat(3, 3))
def sparse_made_inside(x):
    m = sparse.csr_matrix(np.where(x > 0, x, 0))
    return m @ x[0], m.nnz, m.toarray()
