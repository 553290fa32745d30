"""Bodies over fields and particles."""

from __future__ import annotations

from math import isqrt

import numpy as np

import gpuforge as gf
from everyday.body import body, constant, empty, huge, infinity, nan, negative, square, zero


def gravity(position, mass):
    between = position[None, :, :] - position[:, None, :]
    squared = (between**2).sum(axis=2) + 1e-4
    return np.einsum("ijk,ij,j->ik", between, squared**-1.5, mass)


def gravity_xp(position, mass):
    xp = gf.namespace(position)
    between = xp.expand_dims(position, axis=0) - xp.expand_dims(position, axis=1)
    squared = xp.sum(between**2, axis=2) + 1e-4
    strength = squared**-1.5 * mass
    return xp.sum(between * xp.expand_dims(strength, axis=2), axis=1)


def heat_steps(t):
    for _ in range(4):
        t[1:-1, 1:-1] += 0.2 * (
            t[2:, 1:-1] + t[:-2, 1:-1] + t[1:-1, 2:] + t[1:-1, :-2] - 4 * t[1:-1, 1:-1]
        )


def heat_steps_xp(t):
    xp = gf.namespace(t)
    for _ in range(4):
        around = t[2:, 1:-1] + t[:-2, 1:-1] + t[1:-1, 2:] + t[1:-1, :-2]
        inner = t[1:-1, 1:-1] + 0.2 * (around - 4 * t[1:-1, 1:-1])
        middle = xp.concat([t[1:-1, :1], inner, t[1:-1, -1:]], axis=1)
        t = xp.concat([t[:1, :], middle, t[-1:, :]])
    return t


def wave_steps(u, before):
    for _ in range(5):
        after = np.zeros_like(u)
        after[1:-1] = 2 * u[1:-1] - before[1:-1] + 0.25 * (u[2:] - 2 * u[1:-1] + u[:-2])
        before, u = u, after
    return u


def wave_steps_xp(u, before):
    xp = gf.namespace(u)
    edge = xp.zeros_like(u[:1])
    for _ in range(5):
        inner = 2 * u[1:-1] - before[1:-1] + 0.25 * (u[2:] - 2 * u[1:-1] + u[:-2])
        before, u = u, xp.concat([edge, inner, edge])
    return u


def lennard_jones(position):
    i, j = np.triu_indices(len(position), k=1)
    r2 = np.sum((position[i] - position[j]) ** 2, axis=1)
    s6 = 1 / r2**3
    return 4 * np.sum(s6 * (s6 - 1))


def lennard_jones_xp(position):
    xp = gf.namespace(position)
    between = xp.expand_dims(position, axis=0) - xp.expand_dims(position, axis=1)
    r2 = xp.sum(between**2, axis=2) + 1e9 * xp.eye(position.shape[0], dtype=position.dtype)
    s6 = 1 / r2**3
    return 2 * xp.sum(s6 * (s6 - 1))


def ising_energy(spins):
    bonds = np.roll(spins, 1, axis=0) + np.roll(spins, 1, axis=1)
    return -np.sum(spins * bonds), abs(spins.mean())


def ising_energy_xp(spins):
    xp = gf.namespace(spins)
    bonds = xp.roll(spins, 1, axis=0) + xp.roll(spins, 1, axis=1)
    return -xp.sum(spins * bonds), xp.abs(xp.mean(xp.astype(spins, xp.float64)))


def jacobi_potential(v, charge):
    for _ in range(6):
        new = v.copy()
        new[1:-1, 1:-1] = 0.25 * (
            v[2:, 1:-1] + v[:-2, 1:-1] + v[1:-1, 2:] + v[1:-1, :-2] + charge[1:-1, 1:-1]
        )
        residual = np.abs(new - v).max()
        v = new
    return v, residual


def jacobi_potential_xp(v, charge):
    xp = gf.namespace(v)
    for _ in range(6):
        mean = 0.25 * (v[2:, 1:-1] + v[:-2, 1:-1] + v[1:-1, 2:] + v[1:-1, :-2] + charge[1:-1, 1:-1])
        middle = xp.concat([v[1:-1, :1], mean, v[1:-1, -1:]], axis=1)
        new = xp.concat([v[:1, :], middle, v[-1:, :]])
        residual = xp.max(xp.abs(new - v))
        v = new
    return v, residual


def verlet(x, v, k):
    dt = 0.01
    force = -k * x
    for _ in range(10):
        x = x + v * dt + 0.5 * force * dt**2
        new = -k * x
        v = v + 0.5 * (force + new) * dt
        force = new
    return x, v, (0.5 * v**2 + 0.5 * k * x**2).sum()


def verlet_xp(x, v, k):
    xp = gf.namespace(x)
    dt = 0.01
    force = -k * x
    for _ in range(10):
        x = x + v * dt + 0.5 * force * dt**2
        new = -k * x
        v = v + 0.5 * (force + new) * dt
        force = new
    return x, v, xp.sum(0.5 * v**2 + 0.5 * k * x**2)


def planck_peak(wavelength, temperature):
    h, c, k = 6.626e-34, 2.998e8, 1.381e-23
    x = h * c / (wavelength[None, :] * k * temperature[:, None])
    radiance = 2 * h * c**2 / wavelength**5 / np.expm1(x)
    return wavelength[radiance.argmax(axis=1)]


def planck_peak_xp(wavelength, temperature):
    xp = gf.namespace(wavelength)
    h, c, k = 6.626e-34, 2.998e8, 1.381e-23
    x = h * c / (xp.expand_dims(wavelength, axis=0) * k * xp.expand_dims(temperature, axis=1))
    radiance = 2 * h * c**2 / wavelength**5 / xp.expm1(x)
    return xp.take(wavelength, xp.argmax(radiance, axis=1))


def thrown_balls(speed, angle):
    dt, drag = 0.02, 0.01
    vx, vy = speed * np.cos(angle), speed * np.sin(angle)
    x, y = np.zeros_like(speed), np.zeros_like(speed)
    for _ in range(15):
        v = np.hypot(vx, vy)
        vx -= drag * v * vx * dt
        vy -= (9.81 + drag * v * vy) * dt
        x += vx * dt
        y += vy * dt
        y[y < 0] = 0
    return np.stack([x, y])


def thrown_balls_xp(speed, angle):
    xp = gf.namespace(speed)
    dt, drag = 0.02, 0.01
    vx, vy = speed * xp.cos(angle), speed * xp.sin(angle)
    x, y = xp.zeros_like(speed), xp.zeros_like(speed)
    for _ in range(15):
        v = xp.hypot(vx, vy)
        vx, vy = vx - drag * v * vx * dt, vy - (9.81 + drag * v * vy) * dt
        x = x + vx * dt
        y = xp.clip(y + vy * dt, 0.0, None)
    return xp.stack([x, y])


def kinetic_temperature(mass, velocity):
    drift = np.average(velocity, axis=0, weights=mass)
    energy = 0.5 * (mass[:, np.newaxis] * (velocity - drift) ** 2).sum()
    return 2 * energy / (3 * len(mass) - 3)


def kinetic_temperature_xp(mass, velocity):
    xp = gf.namespace(mass)
    drift = mass @ velocity / xp.sum(mass)
    energy = 0.5 * xp.sum(xp.expand_dims(mass, axis=1) * (velocity - drift) ** 2)
    return 2 * energy / (3 * mass.shape[0] - 3)


def bodies(size, rng):
    n = max(isqrt(size // 3), 3)
    return rng.random((n, 3)), rng.random(n)


def atoms(size, rng):
    side = max(round((size // 3) ** (1 / 6)), 2)
    grid = np.stack(np.meshgrid(*[np.arange(side)] * 3), axis=-1).reshape(-1, 3)
    return (1.1 * grid + 0.1 * rng.random(grid.shape),)


def two_lines(size, rng):
    return rng.standard_normal(size), rng.standard_normal(size)


def spins(size, rng):
    side = max(isqrt(size), 4)
    return (rng.choice(np.array([-1, 1], dtype=np.int8), (side, side)),)


def two_squares(size, rng):
    return (*square(size, rng), *square(size, rng))


def springs(size, rng):
    return rng.standard_normal(size), rng.standard_normal(size), 2.0


def stars(size, rng):
    return np.linspace(1e-7, 3e-6, 200), 2000 + 8000 * rng.random(max(size // 200, 2))


def throws(size, rng):
    return 10 + 20 * rng.random(size), rng.random(size)


def gas(size, rng):
    n = max(size // 3, 2)
    return rng.random(n).astype(np.float32), rng.standard_normal((n, 3)).astype(np.float32)


BODIES = (
    body(gravity, gravity_xp, bodies, nan, infinity, huge, empty),
    body(heat_steps, heat_steps_xp, square, nan, infinity, empty),
    body(wave_steps, wave_steps_xp, two_lines, nan, infinity, empty),
    body(lennard_jones, lennard_jones_xp, atoms, nan, infinity, zero, huge),
    body(ising_energy, ising_energy_xp, spins, constant, empty),
    body(jacobi_potential, jacobi_potential_xp, two_squares, nan, infinity),
    body(verlet, verlet_xp, springs, nan, infinity, huge, empty),
    body(planck_peak, planck_peak_xp, stars, nan, infinity, zero, negative, empty),
    body(thrown_balls, thrown_balls_xp, throws, nan, infinity, huge, empty),
    body(kinetic_temperature, kinetic_temperature_xp, gas, nan, infinity, zero, huge, empty),
)
