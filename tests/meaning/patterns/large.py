"""Arrays large enough that another library may be faster: the same meaning, call after call."""

from __future__ import annotations

import numpy as np

import gpuforge as gf
from tests.meaning.pattern import call, pattern, scene

N = 60_000


def big(dtype=np.float64, n=N):
    return (np.sin(np.arange(n) * 0.7) * 3).astype(dtype)


def square(n=120, dtype=np.float64):
    return big(dtype, n * n).reshape(n, n)


def gappy():
    x = big()
    x[41_234] = np.nan
    return x


def six(maker):
    return [maker] * 6


@pattern(*six(lambda: big()))
def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


@pattern(*six(lambda: big(np.float32)))
def gelu_in_single(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


@pattern(*six(lambda: big().reshape(300, 200)))
def log_sum_exp(x):
    m = x.max(axis=1, keepdims=True)
    return (m + np.log(np.exp(x - m).sum(axis=1, keepdims=True)))[:, 0]


@pattern(*six(lambda: big().reshape(300, 200)))
def standardise(x):
    xp = gf.namespace(x)
    return (x - xp.mean(x, axis=0)) / xp.std(x, axis=0)


@pattern(*six(lambda: (square(), square())))
def products_of_matrices(a, b):
    return a @ b + a.T @ b - np.trace(a)


@pattern(*six(lambda: (square(60), square(60)[0])))
def solve_well_conditioned(a, b):
    return np.linalg.solve(a @ a.T + 50 * np.eye(60), b)


@pattern(*[lambda k=k: (big(), k) for k in (1, 2.5, 0, -1, 3, np.float32(2))])
def number_changes_each_call(x, k):
    return np.exp(-abs(x)) * k


@pattern(*[lambda n=n: big(n=n) for n in (N, N // 2, N, 10, 0, N)])
def size_changes_each_call(x):
    return np.sqrt(x * x + 1), x.sum()


@pattern(*[lambda d=d: big(d) for d in ("f8", "f4", "i8", "f8", "c16", "f2")])
def dtype_changes_each_call(x):
    return np.abs(x * 2 + 1).sum(), x[:5] ** 2


@pattern(big, big, gappy, gappy, big, gappy)
def nan_appears_later(x):
    return x.max(), np.sin(x).min(), np.argmax(x), np.isnan(x).sum()


@pattern(*six(gappy))
def maximum_with_nan(x):
    return np.maximum(x, 0), np.where(np.isnan(x), 0.0, x).mean(), np.nanmax(x)


@pattern(*six(lambda: big()))
def written_in_place(x):
    x *= 0.5
    x += np.tanh(x)
    x[::2] = 0
    return float(x.sum())


@pattern(*six(lambda: (big(), np.empty(N))))
def written_into_out(x, out):
    np.exp(x, out=out)
    out -= 1
    return out is not None


@pattern(*six(lambda: big()))
def returns_views_of_argument(x):
    return x[10:20], x.reshape(-1, 100)[0], np.exp(x)[:3]


@pattern(*six(lambda: (big(), [])))
def history_beside_array(x, history):
    for _ in range(3):
        x = np.tanh(x) + 0.1
        history.append(float(x.mean()))
    return x


@pattern(*six(lambda: big()))
def printed_once(x):
    y = np.log1p(x * x)
    print(f"{y.mean():.6f}")
    return y


@pattern(*six(lambda: call(big(), rng=np.random.default_rng(2))))
def noise_added_once(x, rng):
    return np.sqrt(np.abs(x + rng.normal(size=x.shape)))


@pattern(*[lambda s=s: (big(), s) for s in (1.0, -1.0, 1.0, 1.0, -1.0, -1.0)])
def branch_by_sum(x, s):
    y = np.exp(-x * x) * s
    return np.cumsum(y) if y.sum() > 0 else y[::-1]


@pattern(*six(lambda: (big() * 100).astype(np.int64)))
def integers(k):
    return k // 7, k % 7, (k**2).sum(), np.bincount(k % 10), k.mean()


@pattern(*six(lambda: (np.arange(N) % 251).astype(np.uint8).reshape(200, 300)))
def image(img):
    bright = np.clip(img * 1.2 + 10, 0, 255).astype(np.uint8)
    return bright, img + img, img.mean(axis=1), (img > 128).sum()


@pattern(*six(lambda: (big(), np.arange(N)[::-1] % 97)))
def gathered_and_scattered(x, k):
    y = np.zeros(97)
    np.add.at(y, k, x)
    return x[k], y, np.bincount(k, weights=x)


@pattern(*six(lambda: big()))
def masked_and_sorted(x):
    y = np.sort(x[x > 0.5])
    return y[:10], y.size, np.median(y), np.unique(np.round(x, 1))


@pattern(*six(lambda: big(n=4096)))
def transforms(x):
    s = np.fft.rfft(x * np.hanning(x.size))
    s[500:] = 0
    return np.fft.irfft(s), np.abs(s).argmax()


@pattern(*six(lambda: big().reshape(200, 300)))
def heat_steps(u):
    for _ in range(5):
        u[1:-1, 1:-1] += 0.2 * (
            u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
        )
    return np.abs(u).max()


@pattern(*six(lambda: big().reshape(-1, 3)[:300]))
def pairwise_distances(p):
    d = np.sqrt(((p[:, None] - p[None]) ** 2).sum(-1))
    np.fill_diagonal(d, np.inf)
    return d.min(axis=1), (d < 0.5).sum()


@pattern(*six(lambda: (big(), big()[::-1])))
def arguments_that_fail_late(x, y):
    z = np.exp(x) + y
    z[0] = 1
    return z[x.size]


@scene
def state_over_calls(offload):
    class Model:
        rate = 0.1

        def __init__(self):
            self.w = big()

        @offload
        def step(self, g):
            self.w = self.w - self.rate * np.tanh(g) * self.w
            return self.w.sum()

    m, totals = Model(), []
    for k in range(8):
        totals.append(m.step(big()))
        m.rate = 0.1 + 0.05 * k
    return totals, m.w


@scene
def captured_array_changes(offload):
    table = big()
    f = offload(lambda x: np.exp(-abs(x)) * table)
    results = []
    for k in range(6):
        table[k] = 100.0 * k
        results.append(f(big())[:8])
    return results


@scene
def result_used_as_argument(offload):
    f = offload(lambda x: np.tanh(x) * 1.5)
    x = big()
    for _ in range(8):
        x = f(x)
    x[0] = 0
    return x


@scene
def argument_written_between_calls(offload):
    f, x = offload(lambda x: np.sin(x).sum()), big()
    results = []
    for k in range(6):
        x[k * 1000 : k * 1000 + 500] = k
        results.append(f(x))
    return results


@scene
def same_argument_twice(offload):
    @offload
    def f(x, y):
        x += 1
        return np.exp(-y * y)

    x = big()
    return [f(x, x)[:5] for _ in range(5)], x[:5]
