"""Bodies over complex numbers."""

from __future__ import annotations

from math import isqrt

import numpy as np

import gpuforge as gf
from everyday.body import (
    body,
    empty,
    flat,
    huge,
    infinity,
    nan,
    negative,
    positive,
    some_zeros,
    three,
    waves,
    zero,
)


def phase_and_gain(z):
    return np.angle(z, deg=True), 20 * np.log10(np.abs(z))


def phase_and_gain_xp(z):
    xp = gf.namespace(z)
    return xp.atan2(xp.imag(z), xp.real(z)) * 180 / xp.pi, 20 * xp.log10(xp.abs(z))


def mandelbrot(c):
    z = np.zeros_like(c)
    steps = np.zeros(c.shape, dtype=np.int64)
    for _ in range(20):
        alive = np.abs(z) <= 2
        z[alive] = z[alive] ** 2 + c[alive]
        steps += alive
    return steps


def mandelbrot_xp(c):
    xp = gf.namespace(c)
    z = xp.zeros_like(c)
    steps = xp.zeros(c.shape, dtype=xp.int64)
    for _ in range(20):
        alive = xp.abs(z) <= 2
        z = xp.where(alive, z * z + c, z)
        steps = steps + xp.astype(alive, xp.int64)
    return steps


def impedance(frequency, r, c):
    omega = 2j * np.pi * frequency
    branch = 1 / (1 / (r + omega * 1e-3) + omega * c)
    return np.abs(branch), branch.real / np.abs(branch)


def impedance_xp(frequency, r, c):
    xp = gf.namespace(frequency)
    omega = 2j * np.pi * frequency
    branch = 1 / (1 / (r + omega * 1e-3) + omega * c)
    return xp.abs(branch), xp.real(branch) / xp.abs(branch)


def dft_by_product(z):
    n = z.shape[-1]
    k = np.arange(n)
    return z @ np.exp(-2j * np.pi * np.outer(k, k) / n)


def dft_by_product_xp(z):
    xp = gf.namespace(z)
    k = xp.arange(z.shape[-1], dtype=xp.float64)
    turns = xp.expand_dims(k, axis=1) * k / z.shape[-1]
    return z @ xp.exp(-2j * xp.pi * turns)


def quadratic_roots(a, b, c):
    root = np.sqrt((b * b - 4 * a * c).astype(complex))
    return (-b + root) / (2 * a), (-b - root) / (2 * a)


def quadratic_roots_xp(a, b, c):
    xp = gf.namespace(a)
    root = xp.sqrt(xp.astype(b * b - 4 * a * c, xp.complex128))
    return (-b + root) / (2 * a), (-b - root) / (2 * a)


def moebius(z):
    w = (2 * z + 1j) / (z - 1)
    return np.where(np.abs(w) > 1, 1 / w.conj(), w)


def moebius_xp(z):
    xp = gf.namespace(z)
    w = (2 * z + 1j) / (z - 1)
    return xp.where(xp.abs(w) > 1, 1 / xp.conj(w), w)


def filter_response(frequency):
    z = np.exp(1j * np.pi * frequency)
    response = np.polyval([0.2, 0.3, 0.2], z) / np.polyval([1.0, -0.4, 0.1], z)
    return np.abs(response), np.unwrap(np.angle(response))


def filter_response_xp(frequency):
    xp = gf.namespace(frequency)
    z = xp.exp(1j * xp.pi * frequency)
    response = ((0.2 * z + 0.3) * z + 0.2) / ((z - 0.4) * z + 0.1)
    return xp.abs(response), xp.atan2(xp.imag(response), xp.real(response))


def hermitian_energy(z):
    psi = z / np.sqrt(np.vdot(z, z).real)
    kinetic = -0.5 * (np.roll(psi, 1) - 2 * psi + np.roll(psi, -1))
    return np.vdot(psi, kinetic).real


def hermitian_energy_xp(z):
    xp = gf.namespace(z)
    psi = z / xp.sqrt(xp.real(xp.vecdot(z, z)))
    kinetic = -0.5 * (xp.roll(psi, 1) - 2 * psi + xp.roll(psi, -1))
    return xp.real(xp.vecdot(psi, kinetic))


def split_step(psi, potential):
    k = 2 * np.pi * np.fft.fftfreq(len(psi))
    psi = psi * np.exp(-0.05j * potential)
    psi = np.fft.ifft(np.exp(-0.05j * k**2) * np.fft.fft(psi))
    return psi * np.exp(-0.05j * potential)


def split_step_xp(psi, potential):
    xp = gf.namespace(psi)
    k = 2 * xp.pi * xp.fft.fftfreq(psi.shape[0])
    psi = psi * xp.exp(-0.05j * potential)
    psi = xp.fft.ifft(xp.exp(-0.05j * k**2) * xp.fft.fft(psi))
    return psi * xp.exp(-0.05j * potential)


def plane(size, rng):
    side = max(isqrt(size), 4)
    x = np.linspace(-2, 0.6, side)
    return (x + 1j * np.linspace(-1.2, 1.2, side)[:, None],)


def circuits(size, rng):
    return 50 + 1000 * rng.random(size), 100.0, 1e-6


def blocks(size, rng):
    shape = (max(size // 64, 2), 64)
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape),)


def well(size, rng):
    return (*waves(size, rng), *flat(size, rng))


BODIES = (
    body(phase_and_gain, phase_and_gain_xp, waves, nan, infinity, some_zeros, huge, empty),
    body(mandelbrot, mandelbrot_xp, plane, nan, infinity, huge, empty),
    body(impedance, impedance_xp, circuits, nan, infinity, some_zeros, negative, huge, empty),
    body(dft_by_product, dft_by_product_xp, blocks, nan, infinity, zero, empty),
    body(quadratic_roots, quadratic_roots_xp, three, nan, infinity, some_zeros, huge, empty),
    body(moebius, moebius_xp, waves, nan, infinity, some_zeros, huge, empty),
    body(filter_response, filter_response_xp, positive, nan, infinity, empty),
    body(hermitian_energy, hermitian_energy_xp, waves, nan, infinity, zero, huge, empty),
    body(split_step, split_step_xp, well, nan, infinity, huge, empty),
)
