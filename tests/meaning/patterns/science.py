"""Everyday scientific snippets, unchanged from how people write them."""

from __future__ import annotations

import numpy as np

from tests.meaning.arrays import bits, cplx, ints, mat, pos, spd, vec
from tests.meaning.pattern import pattern, scene


@pattern(lambda: mat(3, 4))
def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@pattern(lambda: mat(3, 4))
def log_sum_exp(x):
    m = x.max(axis=1)
    return m + np.log(np.exp(x - m[:, None]).sum(axis=1))


@pattern(lambda: vec(6))
def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


@pattern(lambda: (pos(5), 1.0, 0.05, 0.2, 1.5))
def black_scholes_like(s, k, r, sigma, t):
    d1 = (np.log(s / k) + (r + sigma**2 / 2) * t) / (sigma * np.sqrt(t))
    cdf = 0.5 * (1 + np.tanh(0.7978845608 * (d1 + 0.044715 * d1**3)))
    return s * cdf - k * np.exp(-r * t) * (1 - cdf)


@pattern(lambda: (mat(5, 3), mat(4, 3)))
def pairwise_distances(a, b):
    d2 = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T
    return np.sqrt(np.maximum(d2, 0))


@pattern(lambda: mat(4, 3))
def distances_by_broadcasting(p):
    d = p[:, None, :] - p[None, :, :]
    r = np.sqrt((d**2).sum(-1))
    np.fill_diagonal(r, np.inf)
    return r.min(axis=1), r.argmin(axis=1)


@pattern(lambda: (mat(6, 2), np.array([[0.0, 1.0], [2.0, -1.0]])))
def k_means_step(p, centres):
    labels = ((p[:, None] - centres) ** 2).sum(-1).argmin(1)
    new = np.array([p[labels == k].mean(axis=0) for k in range(2) if (labels == k).any()])
    return labels, new


@pattern(lambda: (mat(6, 3), vec(6)))
def ridge_regression(x, y):
    a = x.T @ x + 0.1 * np.eye(x.shape[1])
    w = np.linalg.solve(a, x.T @ y)
    return w, ((y - x @ w) ** 2).mean()


@pattern(lambda: (mat(6, 3), bits(6).astype(float)))
def logistic_regression(x, y):
    w = np.zeros(3)
    for _ in range(5):
        p = 1 / (1 + np.exp(-x @ w))
        w -= 0.1 * x.T @ (p - y) / len(y)
    return w


@pattern(lambda: spd(4))
def power_iteration(a):
    v = np.ones(len(a))
    for _ in range(20):
        v = a @ v
        v /= np.linalg.norm(v)
    return v @ a @ v


@pattern(lambda: (spd(4), vec(4)))
def conjugate_gradient(a, b):
    x, r = np.zeros_like(b), b.copy()
    p, rs = r.copy(), r @ r
    for _ in range(4):
        ap = a @ p
        alpha = rs / (p @ ap)
        x += alpha * p
        r -= alpha * ap
        new = r @ r
        if np.sqrt(new) < 1e-10:
            break
        p, rs = r + (new / rs) * p, new
    return x


@pattern(lambda: (spd(3), vec(3)))
def jacobi_iteration(a, b):
    d = np.diag(a)
    off = a - np.diagflat(d)
    x = np.zeros_like(b)
    for _ in range(5):
        x = (b - off @ x) / d
    return x


@pattern(lambda: 2.0, lambda: pos(4))
def newton_square_root(a):
    x = a * 1.0
    for _ in range(6):
        x = 0.5 * (x + a / x)
    return x


@pattern(lambda: (vec(3), pos(3), 0.1))
def leapfrog(q, p, dt):
    for _ in range(3):
        p = p - 0.5 * dt * q
        q = q + dt * p
        p = p - 0.5 * dt * q
    return q, p, 0.5 * (p @ p + q @ q)


@pattern(lambda: (vec(3), 0.1))
def runge_kutta(y, h):
    def f(v):
        return -v + np.sin(v)

    k1 = f(y)
    k2 = f(y + h / 2 * k1)
    k3 = f(y + h / 2 * k2)
    k4 = f(y + h * k3)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


@pattern(lambda: mat(5, 5))
def heat_equation(u):
    for _ in range(3):
        u[1:-1, 1:-1] += 0.1 * (
            u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
        )
    return u


@pattern(lambda: bits(25).reshape(5, 5).astype(np.uint8))
def game_of_life(g):
    n = sum(np.roll(g, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0))
    return ((n == 3) | ((g == 1) & (n == 2))).astype(np.uint8)


@pattern(lambda: np.linspace(-2, 1, 6))
def mandelbrot(re):
    c = re[None, :] + 1j * np.linspace(-1, 1, 4)[:, None]
    z, steps = np.zeros_like(c), np.zeros(c.shape, int)
    for _ in range(8):
        inside = np.abs(z) <= 2
        z[inside] = z[inside] ** 2 + c[inside]
        steps += inside
    return steps


@pattern(lambda: (mat(4, 3), pos(4)))
def n_body_forces(x, m):
    d = x[None] - x[:, None]
    r2 = (d**2).sum(-1) + 0.01
    return (m[None, :, None] * d / r2[..., None] ** 1.5).sum(axis=1)


@pattern(lambda: mat(6, 3))
def principal_components(x):
    c = x - x.mean(axis=0)
    _, s, vt = np.linalg.svd(c, full_matrices=False)
    return s**2 / (len(x) - 1), np.abs(c @ vt.T)


@pattern(lambda: (mat(3, 4), mat(3, 4), mat(3, 4)))
def attention(q, k, v):
    scores = q @ k.T / np.sqrt(q.shape[-1])
    scores = np.where(np.tril(np.ones((3, 3), bool)), scores, -np.inf)
    w = np.exp(scores - scores.max(-1, keepdims=True))
    return (w / w.sum(-1, keepdims=True)) @ v


@pattern(lambda: (mat(3, 4), np.ones(4), np.zeros(4)))
def layer_norm(x, gamma, beta):
    mu, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return gamma * (x - mu) / np.sqrt(var + 1e-5) + beta


@pattern(lambda: (mat(4, 3), np.array([0, 2, 1, 2])))
def cross_entropy(logits, labels):
    z = logits - logits.max(axis=1, keepdims=True)
    logp = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
    return -logp[np.arange(len(labels)), labels].mean()


@pattern(lambda: ({"w1": mat(3, 4), "w2": mat(4, 2)}, mat(5, 3)))
def two_layer_network(params, x):
    h = np.maximum(x @ params["w1"], 0)
    return 1 / (1 + np.exp(-(h @ params["w2"])))


@pattern(lambda: (mat(4, 3), mat(3, 2), mat(4, 2)))
def backpropagation(x, w, y):
    h = np.tanh(x @ w)
    loss = ((h - y) ** 2).mean()
    gradient = x.T @ (2 * (h - y) / h.size * (1 - h**2))
    return loss, w - 0.1 * gradient


@pattern(lambda: mat(5, 5))
def image_convolution(img):
    k = np.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]])
    out = np.zeros_like(img)
    p = np.pad(img, 1)
    for i in range(3):
        for j in range(3):
            out += k[i, j] * p[i : i + 5, j : j + 5]
    return out


@pattern(lambda: (mat(4, 4) * 20 + 100).astype(np.uint8))
def histogram_equalisation(img):
    h = np.bincount(img.ravel(), minlength=256)
    cdf = h.cumsum()
    low = cdf[cdf > 0].min()
    return ((cdf[img] - low) * 255 // max(img.size - low, 1)).astype(np.uint8)


@pattern(lambda: (np.arange(24) * 9 % 251).reshape(2, 4, 3).astype(np.uint8))
def rgb_to_grey(img):
    return (img @ [0.299, 0.587, 0.114]).astype(np.uint8), img.mean(axis=2), img[..., ::-1]


@pattern(lambda: (mat(4, 4) > 0).astype(np.uint8) * 255)
def threshold_and_box(img):
    rows = np.any(img > 127, axis=1)
    cols = np.any(img > 127, axis=0)
    r, c = np.where(rows)[0], np.where(cols)[0]
    return img[r[0] : r[-1] + 1, c[0] : c[-1] + 1]


@pattern(lambda: vec(16))
def power_spectrum(x):
    spectrum = np.abs(np.fft.rfft(x * np.hanning(len(x)))) ** 2
    f = np.fft.rfftfreq(len(x), d=0.1)
    return f[spectrum.argmax()], spectrum / spectrum.sum()


@pattern(lambda: vec(16))
def low_pass_filter(x):
    s = np.fft.fft(x)
    s[np.abs(np.fft.fftfreq(16)) > 0.2] = 0
    return np.fft.ifft(s).real


@pattern(lambda: (vec(10), 0.3))
def exponential_smoothing(x, alpha):
    y = np.empty_like(x)
    y[0] = x[0]
    for k in range(1, len(x)):
        y[k] = alpha * x[k] + (1 - alpha) * y[k - 1]
    return y


@pattern(lambda: vec(12))
def peaks(x):
    k = np.flatnonzero((x[1:-1] > x[:-2]) & (x[1:-1] > x[2:])) + 1
    return k, x[k]


@pattern(lambda: vec(12))
def autocorrelation(x):
    c = x - x.mean()
    r = np.correlate(c, c, mode="full")[len(c) - 1 :]
    return r / r[0]


@pattern(lambda: vec(12))
def drawdown(returns):
    wealth = np.cumprod(1 + returns / 100)
    peak = np.maximum.accumulate(wealth)
    return ((wealth - peak) / peak).min(), wealth[-1] ** (1 / len(returns)) - 1


@pattern(lambda: pos(10))
def zero_crossings_and_runs(x):
    s = np.sign(x - x.mean())
    return np.count_nonzero(np.diff(s)), np.diff(np.flatnonzero(np.r_[True, s[1:] != s[:-1], True]))


@pattern(lambda: vec(10))
def outliers_by_deviation(x):
    m = np.median(x)
    mad = np.median(np.abs(x - m))
    return x[np.abs(x - m) > 1.5 * mad], 1.4826 * mad


@pattern(lambda: vec(12))
def quartile_rule(x):
    q1, q3 = np.percentile(x, [25, 75])
    keep = (x >= q1 - 1.5 * (q3 - q1)) & (x <= q3 + 1.5 * (q3 - q1))
    return x[keep].mean(), keep.sum()


@pattern(lambda: (vec(8), pos(8)))
def linear_fit_by_hand(x, y):
    slope = ((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum()
    r = np.corrcoef(x, y)[0, 1]
    return slope, y.mean() - slope * x.mean(), r**2


@pattern(lambda: (ints(10), ints(10)[::-1].copy()))
def confusion_matrix(truth, guess):
    m = np.zeros((5, 5), int)
    np.add.at(m, (truth, guess), 1)
    return m, m.trace() / m.sum()


@pattern(lambda: (vec(10), bits(10)))
def precision_recall(scores, labels):
    order = np.argsort(-scores)
    hits = np.cumsum(labels[order])
    return hits / np.arange(1, 11), hits / max(labels.sum(), 1)


@pattern(lambda: (vec(3), pos(3)))
def angle_between(a, b):
    c = a @ b / (np.linalg.norm(a) * np.linalg.norm(b))
    return np.degrees(np.arccos(np.clip(c, -1, 1)))


@pattern(lambda: (mat(4, 2), 0.5))
def rotate_points(p, theta):
    c, s = np.cos(theta), np.sin(theta)
    return p @ np.array([[c, -s], [s, c]]).T


@pattern(lambda: np.array([1.0, 2.0, 3.0, 4.0]))
def quaternion_to_matrix(q):
    w, x, y, z = q / np.linalg.norm(q)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z)],
        ]
    )


@pattern(lambda: (mat(3, 2), mat(3, 2)))
def haversine_like(a, b):
    lat1, lon1 = np.radians(a).T
    lat2, lon2 = np.radians(b).T
    h = (
        np.sin((lat2 - lat1) / 2) ** 2
        + np.cos(lat1) * np.cos(lat2) * np.sin((lon2 - lon1) / 2) ** 2
    )
    return 2 * 6371 * np.arcsin(np.sqrt(h))


@pattern(lambda: mat(5, 2))
def polygon_area(p):
    x, y = p[:, 0], p[:, 1]
    return 0.5 * abs(x @ np.roll(y, 1) - y @ np.roll(x, 1))


@pattern(lambda: np.array([[0.9, 0.1], [0.4, 0.6]]))
def markov_chain(p):
    state = np.array([1.0, 0.0])
    while True:
        new = state @ p
        if np.abs(new - state).max() < 1e-6:
            return new
        state = new


@pattern(lambda: (np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]), 0.85))
def page_rank(links, d):
    m = links / links.sum(axis=0)
    r = np.full(3, 1 / 3)
    for _ in range(20):
        r = (1 - d) / 3 + d * m @ r
    return r


@pattern(lambda: np.array([[0, 3, np.inf], [3, 0, 1], [np.inf, 1, 0]]))
def floyd_warshall(d):
    for k in range(len(d)):
        d = np.minimum(d, d[:, k, None] + d[None, k, :])
    return d


@pattern(lambda: (ints(6), ints(5)))
def longest_common_subsequence(a, b):
    t = np.zeros((len(a) + 1, len(b) + 1), int)
    for i, p in enumerate(a, 1):
        for j, q in enumerate(b, 1):
            t[i, j] = t[i - 1, j - 1] + 1 if p == q else max(t[i - 1, j], t[i, j - 1])
    return t[-1, -1]


@pattern(lambda: vec(8))
def bubble_sort(x):
    for i in range(len(x)):
        for j in range(len(x) - 1 - i):
            if x[j] > x[j + 1]:
                x[j], x[j + 1] = x[j + 1], x[j]
    return x


@pattern(lambda: (np.sort(vec(8)), 0.5))
def binary_search(x, v):
    low, high = 0, len(x)
    while low < high:
        middle = (low + high) // 2
        if x[middle] < v:
            low = middle + 1
        else:
            high = middle
    return low


@pattern(lambda: (vec(3), 0.1, 50))
def gradient_descent(x, rate, steps):
    history = []
    for _ in range(steps):
        g = 2 * (x - 1)
        x = x - rate * g
        history.append((x**2).sum())
        if np.linalg.norm(g) < 1e-2:
            break
    return x, len(history)


@pattern(lambda: (0.0, 3.0))
def bisection(a, b):
    x = np.array([a, b])
    for _ in range(20):
        m = x.mean()
        x[0 if m**2 < 2 else 1] = m
    return x.mean()


@pattern(lambda: (4, 200))
def monte_carlo_pi(seed, n):
    rng = np.random.default_rng(seed)
    p = rng.random((n, 2))
    return 4 * np.mean((p**2).sum(axis=1) < 1)


@pattern(lambda: (vec(5), 100))
def bootstrap_interval(x, n):
    rng = np.random.default_rng(0)
    means = rng.choice(x, (n, len(x))).mean(axis=1)
    return np.percentile(means, [2.5, 97.5])


@pattern(lambda: cplx(4))
def roots_and_phase(z):
    return np.sqrt(z), np.unwrap(np.angle(z)), np.abs(z) ** 2, z / np.abs(z)


@pattern(lambda: (mat(4, 3), mat(4, 3) * 0.5))
def procrustes(a, b):
    u, s, vt = np.linalg.svd(a.T @ b)
    return s.sum(), np.linalg.norm(a @ (u @ vt) - b)


@pattern(lambda: (vec(4), spd(4)))
def mahalanobis_and_gaussian(x, cov):
    d2 = x @ np.linalg.solve(cov, x)
    return np.sqrt(d2), np.exp(-0.5 * d2) / np.sqrt(np.linalg.det(2 * np.pi * cov))


@pattern(lambda: (vec(2), np.eye(2), np.array([1.0, 0.5])))
def kalman_update(x, p, z):
    h, r = np.eye(2), 0.1 * np.eye(2)
    k = p @ h.T @ np.linalg.inv(h @ p @ h.T + r)
    return x + k @ (z - h @ x), (np.eye(2) - k @ h) @ p


@scene
def training_loop(offload):
    @offload
    def step(w, x, y, rate):
        error = x @ w - y
        w -= rate * x.T @ error / len(y)
        return (error**2).mean()

    w, losses = np.zeros(3), []
    for _ in range(10):
        losses.append(step(w, mat(5, 3), vec(5), 0.01))
    return w, losses, losses[-1] < losses[0]


@scene
def simulation_with_history(offload):
    @offload
    def advance(state, dt):
        state["v"] -= 9.81 * dt
        state["x"] += state["v"] * dt
        hit = state["x"] < 0
        state["v"][hit] *= -0.8
        state["x"][hit] = 0.0
        state["hits"] += int(hit.sum())

    state = {"x": pos(4), "v": np.zeros(4), "hits": 0}
    for _ in range(30):
        advance(state, 0.05)
    return state


@scene
def ring_buffer(offload):
    @offload
    def push(buffer, value, k):
        buffer[k % len(buffer)] = value
        return buffer.mean()

    buffer = np.zeros(4)
    return [push(buffer, v, k) for k, v in enumerate(vec(9))], buffer


@pattern(lambda: (vec(6), 2))
def embed_delay(x, lag):
    return np.column_stack([x[: len(x) - 2 * lag], x[lag : len(x) - lag], x[2 * lag :]])


@pattern(lambda: (mat(4, 3), 0.2))
def dropout_with_fixed_mask(x, rate):
    mask = (np.arange(x.size).reshape(x.shape) % 5) / 5 >= rate
    return np.where(mask, x / (1 - rate), 0.0), mask.mean()
