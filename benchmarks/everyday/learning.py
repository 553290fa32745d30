"""Bodies of machine learning without a framework."""

from __future__ import annotations

from math import isqrt

import numpy as np

import gpuforge as gf
from everyday.body import (
    below_range,
    body,
    constant,
    empty,
    huge,
    infinity,
    nan,
    out_of_range,
    rows,
    zero,
)


def softmax(logits):
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def softmax_xp(logits):
    xp = gf.namespace(logits)
    e = xp.exp(logits - xp.max(logits, axis=-1, keepdims=True))
    return e / xp.sum(e, axis=-1, keepdims=True)


def layer_norm(x, gain, bias):
    mean = x.mean(-1, keepdims=True)
    var = x.var(-1, keepdims=True)
    return gain * (x - mean) / np.sqrt(var + 1e-5) + bias


def layer_norm_xp(x, gain, bias):
    xp = gf.namespace(x)
    mean = xp.mean(x, axis=-1, keepdims=True)
    var = xp.var(x, axis=-1, keepdims=True)
    return gain * (x - mean) / xp.sqrt(var + 1e-5) + bias


def kmeans_step(points, centres):
    d2 = ((points[:, None] - centres) ** 2).sum(axis=2)
    label = d2.argmin(axis=1)
    return np.array([points[label == k].mean(axis=0) for k in range(len(centres))])


def kmeans_step_xp(points, centres):
    xp = gf.namespace(points)
    d2 = xp.sum((xp.expand_dims(points, axis=1) - centres) ** 2, axis=2)
    label = xp.expand_dims(xp.argmin(d2, axis=1), axis=1)
    member = xp.astype(label == xp.arange(centres.shape[0]), points.dtype)
    return member.T @ points / xp.expand_dims(xp.sum(member, axis=0), axis=1)


def pairwise_distances(x, y):
    d2 = (x**2).sum(axis=1)[:, None] + (y**2).sum(axis=1) - 2 * x @ y.T
    np.maximum(d2, 0, out=d2)
    return np.sqrt(d2)


def pairwise_distances_xp(x, y):
    xp = gf.namespace(x)
    squares = xp.sum(x**2, axis=1, keepdims=True) + xp.sum(y**2, axis=1) - 2 * x @ y.T
    return xp.sqrt(xp.clip(squares, 0.0, None))


def logistic_gradient(x, y, w):
    p = 1 / (1 + np.exp(-x.dot(w)))
    loss = -np.mean(y * np.log(p + 1e-12) + (1 - y) * np.log(1 - p + 1e-12))
    return loss, x.T.dot(p - y) / len(y)


def logistic_gradient_xp(x, y, w):
    xp = gf.namespace(x)
    p = 1 / (1 + xp.exp(-(x @ w)))
    loss = -xp.mean(y * xp.log(p + 1e-12) + (1 - y) * xp.log(1 - p + 1e-12))
    return loss, x.T @ (p - y) / y.shape[0]


def principal_components(x):
    centred = x - x.mean(axis=0)
    _, s, vt = np.linalg.svd(centred, full_matrices=False)
    top = vt[:3]
    largest = np.abs(top).argmax(axis=1)
    top = top * np.sign(top[np.arange(3), largest])[:, None]
    return centred @ top.T, s**2 / (len(x) - 1)


def principal_components_xp(x):
    xp = gf.namespace(x)
    centred = x - xp.mean(x, axis=0)
    variance, vectors = xp.linalg.eigh(centred.T @ centred / (x.shape[0] - 1))
    top = vectors[:, -3:]
    signs = xp.sign(xp.sum(top**3, axis=0))
    return centred @ (top * signs), xp.flip(variance)


def ridge_regression(x, y, strength):
    gram = x.T @ x
    gram[np.diag_indices_from(gram)] += strength
    weights = np.linalg.solve(gram, x.T @ y)
    return weights, np.mean((x @ weights - y) ** 2)


def ridge_regression_xp(x, y, strength):
    xp = gf.namespace(x)
    gram = x.T @ x + strength * xp.eye(x.shape[1], dtype=x.dtype)
    weights = xp.linalg.solve(gram, x.T @ y)
    return weights, xp.mean((x @ weights - y) ** 2)


def cross_entropy(logits, labels):
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_sum = np.log(np.exp(shifted).sum(axis=1))
    return np.mean(log_sum - shifted[np.arange(len(labels)), labels])


def cross_entropy_xp(logits, labels):
    xp = gf.namespace(logits)
    shifted = logits - xp.max(logits, axis=1, keepdims=True)
    log_sum = xp.log(xp.sum(xp.exp(shifted), axis=1))
    hit = xp.take_along_axis(shifted, xp.expand_dims(labels, axis=1), axis=1)
    return xp.mean(log_sum - hit[:, 0])


def nearest_vote(x, known, labels):
    d2 = ((x[:, None, :] - known[None, :, :]) ** 2).sum(axis=2)
    near = np.argpartition(d2, 5, axis=1)[:, :5]
    votes = (labels[near][:, :, None] == np.arange(3)).sum(axis=1)
    return votes.argmax(axis=1)


def nearest_vote_xp(x, known, labels):
    xp = gf.namespace(x)
    d2 = xp.sum((xp.expand_dims(x, axis=1) - xp.expand_dims(known, axis=0)) ** 2, axis=2)
    near = xp.argsort(d2, axis=1)[:, :5]
    voted = xp.reshape(xp.take(labels, xp.reshape(near, (-1,))), near.shape)
    votes = xp.expand_dims(voted, axis=2) == xp.arange(3)
    return xp.argmax(xp.sum(xp.astype(votes, xp.int64), axis=1), axis=1)


def two_layers(x, w1, w2):
    hidden = x @ w1
    hidden[hidden < 0] *= 0.01
    return np.tanh(hidden @ w2)


def two_layers_xp(x, w1, w2):
    xp = gf.namespace(x)
    hidden = x @ w1
    return xp.tanh(xp.where(hidden < 0, 0.01 * hidden, hidden) @ w2)


def attention(q, k, v):
    scores = np.einsum("hid,hjd->hij", q, k) / np.sqrt(q.shape[-1])
    scores = np.where(np.tri(q.shape[1], dtype=bool), scores, -np.inf)
    scores -= scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores)
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights @ v


def attention_xp(q, k, v):
    xp = gf.namespace(q)
    scores = q @ xp.matrix_transpose(k) / q.shape[-1] ** 0.5
    seen = xp.tril(xp.ones((q.shape[1], q.shape[1]), dtype=q.dtype))
    scores = xp.where(seen > 0, scores, -xp.inf)
    weights = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
    return weights / xp.sum(weights, axis=-1, keepdims=True) @ v


def adam_step(w, gradient, m, v):
    m *= 0.9
    m += 0.1 * gradient
    v *= 0.999
    v += 0.001 * gradient**2
    w -= 0.01 * (m / 0.1) / (np.sqrt(v / 0.001) + 1e-8)


def adam_step_xp(w, gradient, m, v):
    xp = gf.namespace(w)
    m = 0.9 * m + 0.1 * gradient
    v = 0.999 * v + 0.001 * gradient**2
    return w - 0.01 * (m / 0.1) / (xp.sqrt(v / 0.001) + 1e-8), m, v


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def gelu_xp(x):
    xp = gf.namespace(x)
    return 0.5 * x * (1 + xp.tanh((2 / xp.pi) ** 0.5 * (x + 0.044715 * x**3)))


def normed(size, rng):
    return (*rows(64, np.float32)(size, rng), np.ones(64, np.float32), np.zeros(64, np.float32))


def clusters(size, rng):
    points = rng.standard_normal((max(size // 10, 8), 2))
    return points, points[:5].copy()


def two_clouds(size, rng):
    n = max(isqrt(size), 2)
    return rng.standard_normal((n, 16)), rng.standard_normal((n, 16))


def labelled(size, rng):
    n = max(size // 10, 4)
    return rng.standard_normal((n, 10)), rng.integers(0, 2, n), rng.standard_normal(10)


def regressed(size, rng):
    n = max(size // 10, 12)
    return rng.standard_normal((n, 10)), rng.standard_normal(n), 0.5


def classified(size, rng):
    n = max(size // 10, 4)
    return rng.standard_normal((n, 10), dtype=np.float32), rng.integers(0, 10, n)


def neighbours(size, rng):
    n = max(isqrt(size // 2), 8)
    return rng.random((n, 2)), rng.random((n, 2)), rng.integers(0, 3, n)


def partly_known(size, rng):
    x, known, labels = neighbours(size, rng)
    known[0] = np.nan
    return x, known, labels


def layers(size, rng):
    n = max(size // 64, 4)
    return tuple(
        rng.standard_normal(shape, dtype=np.float32) for shape in ((n, 64), (64, 64), (64, 10))
    )


def heads(size, rng):
    n = max(isqrt(size // 4), 4)
    return tuple(rng.standard_normal((4, n, 16), dtype=np.float32) for _ in range(3))


def optimised(size, rng):
    return rng.standard_normal(size), rng.standard_normal(size), np.zeros(size), np.zeros(size)


BODIES = (
    body(softmax, softmax_xp, rows(10, np.float32), nan, infinity, huge, empty),
    body(layer_norm, layer_norm_xp, normed, nan, infinity, constant, huge),
    body(kmeans_step, kmeans_step_xp, clusters, nan, infinity, constant),
    body(pairwise_distances, pairwise_distances_xp, two_clouds, nan, infinity, huge, empty),
    body(logistic_gradient, logistic_gradient_xp, labelled, nan, infinity, zero, huge),
    body(principal_components, principal_components_xp, rows(12), nan, infinity, zero),
    body(ridge_regression, ridge_regression_xp, regressed, nan, infinity, zero, huge),
    body(cross_entropy, cross_entropy_xp, classified, nan, infinity, out_of_range, below_range),
    body(nearest_vote, nearest_vote_xp, neighbours, out_of_range, missing=partly_known),
    body(two_layers, two_layers_xp, layers, nan, infinity, huge),
    body(attention, attention_xp, heads, nan, infinity, zero),
    body(adam_step, adam_step_xp, optimised, nan, infinity, huge, empty),
    body(gelu, gelu_xp, rows(64, np.float32), nan, infinity, huge, empty),
)
