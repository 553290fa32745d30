"""The breadth of NumPy's functions, as plain code uses them."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tests.meaning.arrays import bits, cplx, cube, holes, ints, mat, pos, spd, vec
from tests.meaning.pattern import pattern


@pattern(lambda: (mat(2, 3), mat(3, 4)))
def einsum_forms(a, b):
    return np.einsum("ij,jk->ik", a, b), np.einsum("ij->j", a), np.einsum("ij,ij", a, a)


@pattern(lambda: cube(2, 3, 3))
def einsum_batched(x):
    return np.einsum("bij,bjk->bik", x, x), np.einsum("bii->b", x), np.einsum("...ij->...ji", x)


@pattern(lambda: (cube(2, 3, 4), mat(4, 3)))
def tensordot_kron_inner(a, b):
    return np.tensordot(a, b, axes=([2, 1], [0, 1])), np.kron(b[:2, :2], b[:1]), np.inner(b, b)


@pattern(lambda: spd(3))
def solve_inverse_determinant(a):
    b = np.arange(3.0)
    return np.linalg.solve(a, b), np.linalg.inv(a), np.linalg.det(a), np.linalg.slogdet(a)


@pattern(lambda: spd(3))
def symmetric_eigenvalues(a):
    w, v = np.linalg.eigh(a)
    return w, v @ np.diag(w) @ v.T, np.linalg.eigvalsh(a)


@pattern(lambda: mat(3, 3))
def general_eigenvalues(a):
    w = np.linalg.eigvals(a)
    return np.sort_complex(w), w.sum().real


@pattern(lambda: mat(4, 3))
def singular_values(a):
    u, s, vt = np.linalg.svd(a, full_matrices=False)
    return s, (u * s) @ vt, np.linalg.matrix_rank(a), np.linalg.cond(a.T @ a + np.eye(3))


@pattern(lambda: (mat(5, 2), vec(5)))
def least_squares(a, b):
    x, residuals, rank, s = np.linalg.lstsq(a, b, rcond=None)
    return x, residuals, rank, s


@pattern(lambda: mat(4, 3))
def qr_and_pinv(a):
    q, r = np.linalg.qr(a)
    return q @ r, np.abs(r), np.linalg.pinv(a)


@pattern(lambda: spd(3))
def cholesky_and_power(a):
    c = np.linalg.cholesky(a)
    return c, c @ c.T, np.linalg.matrix_power(a, 3), np.linalg.multi_dot([a, a, a[0]])


@pattern(lambda: vec(8))
def fft_forms(x):
    return np.fft.fft(x), np.fft.rfft(x), np.fft.fftfreq(8, 0.5), np.fft.ifft(np.fft.fft(x)).real


@pattern(lambda: mat(4, 4))
def fft_two_dimensional(x):
    return np.fft.fft2(x), np.fft.fftshift(x), np.fft.irfft(np.fft.rfft(x, axis=0), axis=0)


@pattern(lambda: vec(5, np.float32))
def fft_of_single(x):
    return np.fft.fft(x), np.fft.rfft(x, n=8), np.fft.fft(x, norm="ortho")


@pattern(lambda: vec(20))
def histograms(x):
    return (
        np.histogram(x, bins=4),
        np.histogram(x, bins=[-3, 0, 3], density=True),
        np.digitize(x, [-1, 0, 1]),
    )


@pattern(lambda: (vec(10), pos(10)))
def histogram_two_dimensional(x, y):
    return np.histogram2d(x, y, bins=3), np.histogram(x, weights=y, bins=3)


@pattern(lambda: vec(5))
def interpolation(x):
    return np.interp([0.5, 1.5, 9], np.arange(5), x), np.interp(2.2, np.arange(5), x, left=0)


@pattern(lambda: (vec(6), pos(3)))
def convolution(x, w):
    return np.convolve(x, w), np.convolve(x, w, "same"), np.correlate(x, w, "valid")


@pattern(lambda: mat(2, 3))
def padding(x):
    return np.pad(x, 1), np.pad(x, ((0, 1), (2, 0)), constant_values=9), np.pad(x, 1, mode="wrap")


@pattern(lambda: vec(6))
def padding_modes(x):
    return [np.pad(x, 2, mode=m) for m in ("edge", "reflect", "symmetric", "linear_ramp", "mean")]


@pattern(lambda: mat(4, 5))
def gradients(x):
    return np.gradient(x), np.gradient(x[0], 0.5), np.gradient(x, axis=1)


@pattern(lambda: mat(2, 4))
def cumulative_and_differences(x):
    return (
        np.cumsum(x, axis=1),
        np.cumprod(x, 0),
        np.diff(x),
        np.diff(x, n=2, axis=1),
        np.ediff1d(x),
    )


@pattern(lambda: vec(9))
def percentiles(x):
    return np.percentile(x, [5, 50, 95]), np.quantile(x, 0.3), np.percentile(x, 40, method="lower")


@pattern(lambda: mat(4, 3))
def percentiles_along_axis(x):
    return np.percentile(x, [25, 75], axis=0), np.quantile(x, 0.5, axis=1, keepdims=True)


@pattern(lambda: ints(8))
def unique_forms(x):
    return np.unique(x), np.unique(x, return_inverse=True, return_counts=True)


@pattern(lambda: np.array([[1, 2], [1, 2], [0, 3]]))
def unique_rows(x):
    return np.unique(x, axis=0), np.unique_counts(x)


@pattern(lambda: (ints(8), pos(8)))
def bincount_forms(x, w):
    return np.bincount(x), np.bincount(x, w), np.bincount(x, minlength=9)


@pattern(lambda: vec(6))
def searching_sorted(x):
    s = np.sort(x)
    return np.searchsorted(s, x), np.searchsorted(s, [0, 1], side="right"), s.searchsorted(0.5)


@pattern(lambda: mat(3, 4))
def rolling(x):
    return np.roll(x, 2), np.roll(x, (1, -1), axis=(0, 1)), np.roll(x, -1, 0)


@pattern(lambda: (vec(3), pos(2)))
def grids(x, y):
    return np.meshgrid(x, y), np.meshgrid(x, y, indexing="ij")[0], np.mgrid[0:2, 0:3]


@pattern(lambda: (vec(3), pos(3)))
def stacking(a, b):
    return (
        np.stack([a, b]),
        np.vstack((a, b)),
        np.hstack((a, b)),
        np.column_stack((a, b)),
        np.dstack((a, b)),
    )


@pattern(lambda: (mat(2, 3), mat(2, 3)))
def joining(a, b):
    return np.concatenate((a, b), axis=1), np.concatenate((a, b), axis=None), np.block([[a], [b]])


@pattern(lambda: (vec(3), pos(3)))
def stacking_with_r_and_c(a, b):
    return np.r_[a, 0, b], np.c_[a, b], np.append(a, b), np.append([a], [b], axis=0)


@pattern(lambda: mat(4, 6))
def splitting(x):
    return np.hsplit(x, 2), np.vsplit(x, [1, 3]), np.array_split(x, 3)


@pattern(lambda: mat(3, 5))
def covariance_and_correlation(x):
    return np.cov(x), np.corrcoef(x), np.cov(x, rowvar=False, ddof=0).shape, np.cov(x[0], x[1])


@pattern(lambda: (vec(5), pos(5)))
def averages(x, w):
    return np.average(x, weights=w), np.average(x.reshape(1, 5), axis=0), np.mean(x, where=x > 0)


@pattern(lambda: holes(7))
def nan_functions(x):
    return np.nanmean(x), np.nanvar(x), np.nancumsum(x), np.nanpercentile(x, 30), np.nanargmax(x)


@pattern(lambda: mat(3, 4))
def nan_functions_along_axis(x):
    x[0, 1] = np.nan
    return np.nansum(x, axis=0), np.nanmean(x, axis=1), np.nanmin(x, 0), np.nanmedian(x, axis=0)


@pattern(lambda: np.linspace(0, 3, 6))
def polynomials(x):
    p = np.polyfit(x, x**2 - x, 2)
    return p, np.polyval(p, x), np.roots([1, -3, 2]), np.poly1d([1, 2])(x), np.polyder([1, 2, 3])


@pattern(lambda: np.linspace(0, 1, 5))
def polynomial_package(x):
    return np.polynomial.polynomial.polyval(x, [1, 2, 3]), np.polynomial.chebyshev.chebval(
        x, [0, 1]
    )


@pattern(lambda: np.linspace(0, 1, 5))
def integration(x):
    return np.trapezoid(x**2, x), np.trapezoid(x, dx=0.1), np.cumsum(x) * 0.25


@pattern(lambda: vec(6))
def trigonometry(x):
    return (
        np.sin(x),
        np.tan(x),
        np.arctan(x),
        np.sinh(x),
        np.arcsinh(x),
        np.deg2rad(x),
        np.unwrap(x),
    )


@pattern(lambda: pos(6))
def exponentials_and_logs(x):
    return np.exp2(x), np.log2(x), np.log10(x), np.cbrt(x), np.reciprocal(x), np.sinc(x), np.i0(x)


@pattern(lambda: vec(6))
def rounding(x):
    return np.floor(x), np.ceil(x), np.trunc(x), np.rint(x), np.around(x, 1), np.fix(x), np.modf(x)


@pattern(lambda: vec(6))
def floating_parts(x):
    return np.frexp(x), np.ldexp(x, 2), np.copysign(1.0, x), np.signbit(x), np.spacing(x)


@pattern(lambda: (vec(6), pos(6)))
def elementwise_pairs(a, b):
    return (
        np.minimum(a, b),
        np.fmax(a, b),
        np.heaviside(a, 0.5),
        np.float_power(b, 2),
        np.nextafter(a, b),
    )


@pattern(lambda: (vec(4), vec(4) + 1e-9))
def closeness(a, b):
    return np.allclose(a, b), np.isclose(a, b), np.array_equal(a, b), np.array_equiv(a, [a, a])


@pattern(lambda: (ints(6), ints(6)[::-1] + 2))
def set_operations(a, b):
    return (
        np.intersect1d(a, b),
        np.union1d(a, b),
        np.setdiff1d(a, b),
        np.isin(a, b),
        np.setxor1d(a, b),
    )


@pattern(lambda: (ints(6) + 1, ints(6) + 2))
def integer_functions(a, b):
    return np.gcd(a, b), np.lcm(a, b), np.bitwise_and(a, b), np.left_shift(a, 1), np.divmod(a, b)


@pattern(lambda: (bits(5), ~bits(5)))
def logical_functions(a, b):
    return np.logical_and(a, b), np.logical_xor(a, b), np.logical_not(a), np.packbits(a)


@pattern(lambda: cplx(4))
def complex_parts(z):
    return np.real(z), np.imag(z), np.angle(z, deg=True), np.conjugate(z), np.iscomplexobj(z)


@pattern(lambda: mat(3, 3))
def diagonals(x):
    return (
        np.diag(x, 1),
        np.diagflat(x[0]),
        np.eye(3, k=1),
        np.identity(2),
        np.tri(3),
        np.vander(x[0]),
    )


@pattern(lambda: vec(5))
def windows(x):
    return x * np.hanning(5), np.hamming(4), np.blackman(5), np.kaiser(4, 2.0), np.bartlett(5)


@pattern(lambda: vec(5))
def spaces(x):
    return (
        np.logspace(0, 2, 3),
        np.geomspace(1, 8, 4),
        np.linspace(x.min(), x.max(), 3, retstep=True),
    )


@pattern(lambda: (vec(5), vec(5)))
def ufunc_methods(a, b):
    return (
        np.add.outer(a, b),
        np.add.accumulate(a),
        np.add.reduceat(a, [0, 2]),
        np.multiply.reduce(b, initial=2),
    )


@pattern(lambda: mat(3, 4))
def reductions_with_options(x):
    return (
        np.sum(x, axis=0, where=x > 0),
        np.max(x, initial=3.0),
        np.min(x, 1, keepdims=True),
        x.sum(1, dtype=int),
    )


@pattern(lambda: mat(3, 4))
def normalisation_with_keepdims(x):
    n = np.linalg.norm(x, axis=1, keepdims=True)
    return x / n, np.sqrt((x * x).sum(axis=1))


@pattern(lambda: vec(7))
def moving_average(x):
    c = np.cumsum(np.insert(x, 0, 0))
    return (c[3:] - c[:-3]) / 3, sliding_window_view(x, 3).mean(-1)


@pattern(lambda: vec(4))
def random_functions_inside(x):
    return x + np.random.uniform(size=4), np.random.permutation(x), np.random.choice(x, 2)


@pattern(lambda: mat(2, 3))
def shapes_of_things(x):
    return (
        np.shape(x),
        np.ndim(x),
        np.size(x, 0),
        np.broadcast_shapes((2, 1), (3,)),
        np.broadcast(x, x).shape,
    )


@pattern(lambda: mat(2, 3))
def axes_functions(x):
    return np.rollaxis(x, 1), np.matrix_transpose(x), np.permute_dims(x, (1, 0)), np.atleast_3d(x)


@pattern(lambda: vec(6))
def array_api_names(x):
    return (
        np.concat([x, x]),
        np.pow(x, 2),
        np.acos(x / 9),
        np.unstack(x.reshape(2, 3)),
        np.cumulative_sum(x),
    )


@pattern(lambda: (vec(3), pos(3)))
def vector_products(a, b):
    return np.vdot(a, b), np.linalg.vecdot(a, b), np.linalg.cross(a, b), np.linalg.outer(a, b)


@pattern(lambda: (cube(2, 3, 3), mat(2, 3)))
def batched_linear_algebra(a, b):
    return (
        np.linalg.det(a),
        np.linalg.inv(a + 9 * np.eye(3)),
        np.linalg.solve(a + 9 * np.eye(3), b[..., None]),
    )


@pattern(lambda: vec(5))
def text_output(x):
    return np.array_repr(x), np.array_str(x, precision=1), np.format_float_positional(x[0])


@pattern(lambda: np.arange(10))
def mod_and_masks_of_integers(n):
    return n[n % 2 == 0], np.where(n % 3 == 0, n, -n), (n**2 % 7).tolist()


@pattern(lambda: vec(6))
def maximum_minimum_chains(x):
    return (
        np.maximum(np.minimum(x, 2), -2),
        np.maximum.reduce([x, -x, x * 0]),
        np.minimum(x, 0).sum(),
    )


@pattern(lambda: (vec(4), 3))
def repeated_and_tiled(x, n):
    return np.repeat(x[:, None], n, axis=1), np.tile(x, (n, 1)), np.broadcast_to(x, (n, 4)).copy()


@pattern(lambda: vec(6))
def errstate_and_where(x):
    with np.errstate(all="ignore"):
        return np.where(x > 0, np.log(x), 0.0), np.divide(1, x, where=x != 0, out=np.zeros(6))


@pattern(lambda: np.array(["b", "a", "b"]))
def text_arrays(s):
    return np.unique(s, return_inverse=True), s == "b", np.char.upper(s), np.sort(s)


@pattern(lambda: np.array(["2024-01-03", "2024-01-01"], "M8[D]"))
def dates(d):
    return np.diff(d), np.sort(d), d + np.timedelta64(1, "D"), d > np.datetime64("2024-01-02")
