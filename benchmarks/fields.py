"""Twenty small programs over arrays, from as many fields, as their authors would write them.

`benchmarks/advice.py` profiles them. They were written before it was known what the rules of
suggestions say of them. Each function of `PROGRAMS` is one program, of a few seconds at most.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gpuforge as gf

PROGRAMS: dict[str, Callable[[np.random.Generator], object]] = {}


def program(function: Callable[[np.random.Generator], object]) -> Any:
    PROGRAMS[function.__name__] = function
    return function


@gf.offload
def heat_step(t: Any, rate: float) -> Any:
    inner = t[1:-1, 1:-1]
    around = t[:-2, 1:-1] + t[2:, 1:-1] + t[1:-1, :-2] + t[1:-1, 2:]
    new = t.copy()
    new[1:-1, 1:-1] = inner + rate * (around - 4 * inner)
    return new


@program
def heat_in_a_plate(rng: np.random.Generator) -> object:
    t = rng.random((600, 600))
    for step in range(300):
        new = heat_step(t, 0.2)
        if step % 10 == 0 and float(np.abs(new - t).max()) < 1e-6:
            break
        t = new
    return t.mean()


@gf.offload
def black_scholes(spot: Any, strike: Any, years: Any, rate: float, sigma: float) -> Any:
    root = sigma * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + sigma * sigma / 2) * years) / root
    cumulative = 0.5 * (1 + np.tanh(0.7978845608 * (d1 + 0.044715 * d1**3)))
    later = 0.5 * (1 + np.tanh(0.7978845608 * ((d1 - root) + 0.044715 * (d1 - root) ** 3)))
    return spot * cumulative - strike * np.exp(-rate * years) * later


@program
def implied_volatility(rng: np.random.Generator) -> object:
    spot, strike = rng.uniform(80, 120, 200_000), rng.uniform(80, 120, 200_000)
    years = rng.uniform(0.1, 2, 200_000)
    seen = black_scholes(spot, strike, years, 0.02, 0.31)
    low, high = 0.05, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        if black_scholes(spot, strike, years, 0.02, middle).mean() > seen.mean():
            high = middle
        else:
            low = middle
    return middle


@gf.offload
def assign(points: Any, centres: Any) -> Any:
    gaps = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
    return gaps.argmin(axis=1)


@program
def cluster_customers(rng: np.random.Generator) -> object:
    points = rng.normal(size=(20_000, 8))
    centres = points[:12].copy()
    for _ in range(40):
        nearest = assign(points, centres)
        centres = np.stack([points[nearest == k].mean(axis=0) for k in range(12)])
    return centres


@gf.offload
def loglikelihood(theta: Any, x: Any, y: Any) -> Any:
    z = x @ theta
    return (y * z - np.logaddexp(0.0, z)).sum()


@program
def metropolis_of_a_regression(rng: np.random.Generator) -> object:
    x = rng.normal(size=(5_000, 6))
    y = (x @ np.arange(6.0) + rng.normal(size=5_000) > 0).astype(float)
    theta, kept = np.zeros(6), []
    best = float(loglikelihood(theta, x, y))
    for _ in range(3_000):
        proposed = theta + rng.normal(scale=0.05, size=6)
        value = float(loglikelihood(proposed, x, y))
        if np.log(rng.random()) < value - best:
            theta, best = proposed, value
        kept.append(theta)
    return np.mean(kept, axis=0)


@gf.offload
def band_power(signal: Any, low: float, high: float, rate: float) -> Any:
    power = np.abs(np.fft.rfft(signal)) ** 2
    at = np.fft.rfftfreq(signal.shape[0], 1 / rate)
    return np.where((at >= low) & (at < high), power, 0.0).sum()


@program
def sleep_stages_of_an_eeg(rng: np.random.Generator) -> object:
    channels = rng.normal(size=(256 * 30 * 60, 8))  # time by channel, as files hold it
    bands = ((0.5, 4), (4, 8), (8, 13), (13, 30))
    table = np.zeros((60, 8, 4))
    for epoch in range(60):
        for channel in range(8):
            part = channels[epoch * 7680 : (epoch + 1) * 7680, channel]
            for n, (low, high) in enumerate(bands):
                table[epoch, channel, n] = band_power(part, low, high, 256.0)
    return table.argmax(axis=2)


@gf.offload
def accelerations(position: Any, mass: Any) -> Any:
    gap = position[None, :, :] - position[:, None, :]
    square = (gap**2).sum(axis=2) + 1e-3
    return (gap * (mass[None, :] / square**1.5)[:, :, None]).sum(axis=1)


@program
def star_cluster(rng: np.random.Generator) -> object:
    position, velocity = rng.normal(size=(500, 3)), np.zeros((500, 3))
    mass, energy = np.full(500, 1 / 500), []
    pull = accelerations(position, mass)
    for _ in range(60):
        velocity += 0.005 * pull
        position = position + 0.01 * velocity
        pull = accelerations(position, mass)
        velocity += 0.005 * pull
        energy.append(0.5 * (mass[:, None] * velocity**2).sum())
    return energy


@gf.offload
def normalised_difference(red: Any, infrared: Any) -> Any:
    return (infrared - red) / (infrared + red + 1e-6)


@program
def vegetation_of_satellite_tiles(rng: np.random.Generator) -> object:
    shares = []
    for _ in range(60):
        tile = rng.integers(0, 4096, (512, 512, 4), dtype=np.uint16)  # pixel-interleaved
        index = normalised_difference(tile[:, :, 0].astype(float), tile[:, :, 3].astype(float))
        shares.append((index > 0.3).mean())
    return np.mean(shares)


@gf.offload
def rank(matrix: Any, scores: Any, damping: float) -> Any:
    return damping * (matrix @ scores) + (1 - damping) / scores.shape[0]


@program
def page_rank(rng: np.random.Generator) -> object:
    links = (rng.random((1500, 1500)) < 0.01).astype(float)
    matrix = links / np.maximum(links.sum(axis=0), 1)
    scores = np.full(1500, 1 / 1500)
    for _ in range(200):
        new = rank(matrix, scores, 0.85)
        change = float(np.abs(new - scores).sum())
        scores = new
        if change < 1e-12:
            break
    return scores.argmax()


@gf.offload
def convolve_layer(images: Any, kernel: Any) -> Any:
    windows = np.stack([images[:, i : i + 26, j : j + 26] for i in range(3) for j in range(3)])
    return np.maximum(np.tensordot(kernel.reshape(-1, 9), windows, axes=(1, 0)), 0.0)


@gf.offload
def dense_layer(x: Any, weights: Any) -> Any:
    z = x @ weights
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@program
def classify_a_stream_of_images(rng: np.random.Generator) -> object:
    kernel, weights = rng.normal(size=(8, 3, 3)), rng.normal(size=(5408, 10))
    counts = np.zeros(10)
    for _ in range(80):
        raw = rng.integers(0, 256, (64, 28, 28), dtype=np.uint8)
        images = (raw - raw.mean(axis=(1, 2), keepdims=True)) / 255.0
        maps = convolve_layer(images, kernel)
        labels = dense_layer(maps.transpose(1, 0, 2, 3).reshape(64, -1), weights).argmax(axis=1)
        counts += np.bincount(labels, minlength=10)
    return counts


@gf.offload
def smith_row(above: Any, diagonal: Any, scores: Any) -> Any:
    return np.maximum(np.maximum(above - 2.0, diagonal + scores), 0.0)


@program
def align_two_genes(rng: np.random.Generator) -> object:
    one, other = rng.integers(0, 4, 1500), rng.integers(0, 4, 1500)
    row, best = np.zeros(1501), 0.0
    for letter in one:
        scores = np.where(other == letter, 2.0, -1.0)
        new = np.zeros(1501)
        new[1:] = smith_row(row[1:], row[:-1], scores)
        row, best = new, max(best, new.max())
    return best


@gf.offload
def decay(counts: Any, rates: Any, hours: float) -> Any:
    return counts * np.exp(-rates * hours)


@program
def chains_of_isotopes(rng: np.random.Generator) -> object:
    counts, rates = rng.random(40) * 1e6, rng.random(40)
    history = []
    for _ in range(5_000):
        counts = decay(counts, rates, 0.01)
        history.append(counts.sum())
    return history[-1]


@gf.offload
def backproject(image: Any, profile: Any, x: Any, y: Any, angle: float) -> Any:
    at = x * np.cos(angle) + y * np.sin(angle) + profile.shape[0] / 2
    return image + profile[np.clip(at, 0, profile.shape[0] - 1).astype(np.int64)]


@program
def tomography(rng: np.random.Generator) -> object:
    image = np.zeros((256, 256))
    y, x = np.mgrid[-128:128, -128:128].astype(float)
    for angle in np.linspace(0, np.pi, 180, endpoint=False):
        image = backproject(image, rng.random(364), x, y, float(angle))
    return image.max()


@gf.offload
def weighted_distances(features: Any, weights: Any) -> Any:
    return np.sqrt((((features[None] - features[:, None]) * weights) ** 2).sum(axis=2))


@program
def tune_weights_of_a_search(rng: np.random.Generator) -> object:
    features, found = rng.random((300, 16)), []
    for _ in range(50):
        weights = rng.random(16)
        distances = weighted_distances(features, weights)
        found.append((distances.mean(), weights))
    return min(found, key=lambda pair: pair[0])


@gf.offload
def returns_of(prices: Any) -> Any:
    return np.diff(np.log(prices), axis=0)


@gf.offload
def drawdown(prices: Any) -> Any:
    peak = np.maximum.accumulate(prices)
    return (1 - prices / peak).max()


@program
def risk_of_a_portfolio(rng: np.random.Generator) -> object:
    prices = np.exp(np.cumsum(rng.normal(0, 0.01, (2_500, 400)), axis=0))
    covariance = np.cov(returns_of(prices).T)
    worst = [float(drawdown(prices[:, n])) for n in range(400)]
    risks = [w @ covariance @ w for w in rng.dirichlet(np.ones(400), 500)]
    return min(risks), max(worst)


@gf.offload
def mel(spectrum: Any, filters: Any) -> Any:
    return np.log1p(filters @ (np.abs(spectrum) ** 2))


@program
def speech_of_varying_length(rng: np.random.Generator) -> object:
    filters, means = rng.random((40, 257)), []
    for _ in range(60):
        samples = rng.normal(size=int(rng.integers(8_000, 64_000)))
        frames = np.lib.stride_tricks.sliding_window_view(samples, 512)[::160]
        spectrum = np.fft.rfft(frames * np.hanning(512)).T
        means.append(mel(spectrum, filters).mean(axis=1))
    return np.mean(means, axis=0)


@gf.offload
def collide(f: Any, weights: Any, cx: Any, cy: Any) -> Any:
    rho = f.sum(axis=0)
    ux, uy = (f * cx).sum(axis=0) / rho, (f * cy).sum(axis=0) / rho
    cu = 3 * (cx * ux + cy * uy)
    equal = rho * weights * (1 + cu + 0.5 * cu**2 - 1.5 * (ux**2 + uy**2))
    return f + 0.6 * (equal - f)


@program
def flow_round_an_obstacle(rng: np.random.Generator) -> object:
    steps = [(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, -1), (1, -1), (-1, 1)]
    cx, cy = (np.array([s[n] for s in steps], float)[:, None, None] for n in (0, 1))
    weights = np.array([4 / 9] + 4 * [1 / 9] + 4 * [1 / 36])[:, None, None]
    f = weights * np.ones((9, 100, 300)) + 0.01 * rng.random((9, 100, 300))
    wall = np.hypot(*np.mgrid[-50:50, -60:240]) < 12
    for _ in range(100):
        f = collide(f, weights, cx, cy)
        for n, (x, y) in enumerate(steps):
            f[n] = np.roll(f[n], (y, x), axis=(0, 1))
        f[:, wall] = f[[0, 2, 1, 4, 3, 6, 5, 8, 7]][:, wall]
    return f.sum()


@gf.offload
def median_of(patch: Any) -> Any:
    return np.median(patch)


@program
def remove_cosmic_rays(rng: np.random.Generator) -> object:
    frame = rng.normal(100, 5, (110, 110))
    frame[rng.integers(0, 110, 60), rng.integers(0, 110, 60)] += 900
    clean = frame.copy()
    for i in range(2, 108):
        for j in range(2, 108):
            middle = median_of(frame[i - 2 : i + 3, j - 2 : j + 3])
            if frame[i, j] - middle > 50:
                clean[i, j] = middle
    return clean.max()


@gf.offload
def energy_of(spins: Any) -> Any:
    return -(spins * np.roll(spins, 1, 0) + spins * np.roll(spins, 1, 1)).sum()


@gf.offload
def half_sweep(spins: Any, chance: Any, even: Any, beta: float) -> Any:
    around = np.roll(spins, 1, 0) + np.roll(spins, -1, 0)
    around = around + np.roll(spins, 1, 1) + np.roll(spins, -1, 1)
    flips = even & (chance < np.exp(-2 * beta * spins * around))
    return np.where(flips, -spins, spins)


@program
def magnet_that_cools(rng: np.random.Generator) -> object:
    spins = rng.choice([-1.0, 1.0], (256, 256))
    even = np.indices(spins.shape).sum(axis=0) % 2 == 0
    energies = []
    for beta in np.linspace(0.2, 0.8, 120):
        for half in (even, ~even):
            spins = half_sweep(spins, rng.random(spins.shape), half, float(beta))
        energies.append(float(energy_of(spins)))
    return energies[-1]


@gf.offload
def ridge(x: Any, y: Any, strength: float) -> Any:
    return np.linalg.solve(x.T @ x + strength * np.eye(x.shape[1]), x.T @ y)


@program
def cross_validate_a_ridge(rng: np.random.Generator) -> object:
    x, y = rng.normal(size=(8_000, 80)), rng.normal(size=8_000)
    errors = {}
    for strength in np.logspace(-3, 3, 10):
        for fold in range(5):
            train = np.arange(8_000) % 5 != fold
            w = ridge(x[train], y[train], float(strength))
            error = ((x[~train] @ w - y[~train]) ** 2).mean()
            errors[strength] = errors.get(strength, 0.0) + error
    return min(errors, key=errors.get)  # type: ignore[arg-type]


@gf.offload
def dispersed(field: Any, phase: Any) -> Any:
    return np.fft.ifft2(np.fft.fft2(field) * phase)


@program
def laser_beam(rng: np.random.Generator) -> object:
    k = np.fft.fftfreq(256)
    phase = np.exp(-1j * 40 * (k[:, None] ** 2 + k[None, :] ** 2))
    field = np.exp(-(np.hypot(*np.mgrid[-128:128, -128:128]) ** 2) / 800).astype(complex)
    powers = []
    for _ in range(150):
        field = dispersed(field, phase)
        field = field * np.exp(0.1j * np.abs(field) ** 2)
        powers.append(float((np.abs(field) ** 2).sum()))
    return powers[-1]
