"""Bodies over matrices: products, factorisations, iterations."""

from __future__ import annotations

import numpy as np

import gpuforge as gf
from everyday.body import body, huge, infinity, matrices, nan, negative, rows, sides, singular, zero


def gram_schmidt(a):
    basis = np.zeros_like(a)
    for j in range(a.shape[1]):
        v = a[:, j] - basis[:, :j] @ (basis[:, :j].T @ a[:, j])
        basis[:, j] = v / np.linalg.norm(v)
    return basis


def gram_schmidt_xp(a):
    xp = gf.namespace(a)
    found = []
    for j in range(a.shape[1]):
        v = a[:, j]
        for u in found:
            v = v - xp.sum(u * v) * u
        found.append(v / xp.sqrt(xp.sum(v * v)))
    return xp.stack(found, axis=1)


def power_iteration(a, v):
    for _ in range(20):
        v = a @ v
        v /= np.linalg.norm(v)
    return v @ a @ v


def power_iteration_xp(a, v):
    xp = gf.namespace(a)
    for _ in range(20):
        v = a @ v
        v = v / xp.linalg.vector_norm(v)
    return xp.vecdot(v, a @ v)


def conjugate_gradient(a, b):
    x = np.zeros_like(b)
    r = b.copy()
    p = r.copy()
    old = r @ r
    for _ in range(10):
        ap = a @ p
        step = old / (p @ ap)
        x += step * p
        r -= step * ap
        new = r @ r
        p = r + (new / old) * p
        old = new
    return x


def conjugate_gradient_xp(a, b):
    xp = gf.namespace(a)
    x, r, p = xp.zeros_like(b), b, b
    old = xp.vecdot(r, r)
    for _ in range(10):
        ap = a @ p
        step = old / xp.vecdot(p, ap)
        x, r = x + step * p, r - step * ap
        new = xp.vecdot(r, r)
        p, old = r + (new / old) * p, new
    return x


def least_squares(a):
    coefficients, *_ = np.linalg.lstsq(a[:, :-1], a[:, -1], rcond=None)
    return coefficients


def least_squares_xp(a):
    xp = gf.namespace(a)
    q, r = xp.linalg.qr(a[:, :-1])
    return xp.linalg.solve(r, q.T @ a[:, -1])


def whiten(a):
    centred = a - a.mean(axis=0)
    factor = np.linalg.cholesky(centred.T @ centred / len(a))
    return np.linalg.solve(factor, centred.T).T


def whiten_xp(a):
    xp = gf.namespace(a)
    centred = a - xp.mean(a, axis=0)
    factor = xp.linalg.cholesky(centred.T @ centred / a.shape[0])
    return xp.linalg.solve(factor, centred.T).T


def refined_solution(a, b):
    x = np.linalg.solve(a, b)
    x += np.linalg.solve(a, b - a.dot(x))
    return x


def refined_solution_xp(a, b):
    xp = gf.namespace(a)
    x = xp.linalg.solve(a, b)
    return x + xp.linalg.solve(a, b - a @ x)


def low_rank(a):
    u, s, vt = np.linalg.svd(a, full_matrices=False)
    return (u[:, :4] * s[:4]) @ vt[:4]


def low_rank_xp(a):
    xp = gf.namespace(a)
    u, s, vt = xp.linalg.svd(a, full_matrices=False)
    return (u[:, :4] * s[:4]) @ vt[:4, :]


def gaussian_log_density(a, x):
    sign, logdet = np.linalg.slogdet(a)
    quadratic = x @ np.linalg.inv(a) @ x
    return -0.5 * (quadratic + sign * logdet + len(x) * np.log(2 * np.pi))


def gaussian_log_density_xp(a, x):
    xp = gf.namespace(a)
    sign, logdet = xp.linalg.slogdet(a)
    quadratic = xp.sum(x * (xp.linalg.inv(a) @ x))
    return -0.5 * (quadratic + sign * logdet + x.shape[0] * np.log(2 * np.pi))


def spectral_radius(a):
    return np.abs(np.linalg.eigvals(a)).max()


def spectral_radius_xp(a):
    xp = gf.namespace(a)
    return xp.max(xp.abs(xp.linalg.eigvalsh(a)))


def matrix_exponential(a):
    scaled = a / 64
    term = total = np.eye(len(a))
    for k in range(1, 9):
        term = term @ scaled / k
        total = total + term
    for _ in range(6):
        total = total @ total
    return total


def matrix_exponential_xp(a):
    xp = gf.namespace(a)
    scaled = a / 64
    term = total = xp.eye(a.shape[0], dtype=a.dtype)
    for k in range(1, 9):
        term = term @ scaled / k
        total = total + term
    for _ in range(6):
        total = total @ total
    return total


BODIES = (
    body(gram_schmidt, gram_schmidt_xp, rows(8), nan, infinity, zero),
    body(power_iteration, power_iteration_xp, sides(1000), nan, infinity, zero, huge),
    body(conjugate_gradient, conjugate_gradient_xp, sides(1000), nan, infinity, zero),
    body(least_squares, least_squares_xp, rows(8), nan, infinity, zero),
    body(whiten, whiten_xp, rows(8), nan, infinity, zero),
    body(refined_solution, refined_solution_xp, sides(400), nan, infinity, singular, zero),
    body(low_rank, low_rank_xp, rows(16), nan, infinity, zero),
    body(gaussian_log_density, gaussian_log_density_xp, sides(400), nan, singular, zero, negative),
    body(spectral_radius, spectral_radius_xp, matrices(120), nan, infinity, zero),
    body(matrix_exponential, matrix_exponential_xp, matrices(300), nan, infinity, huge),
)
