"""Bodies over images: grey images of floats or bytes, and images of three colours."""

from __future__ import annotations

from math import isqrt

import numpy as np

import gpuforge as gf
from everyday.body import body, constant, empty, huge, infinity, nan, picture, square


def sobel(image):
    across = image[:, 2:] - image[:, :-2]
    down = image[2:, :] - image[:-2, :]
    gx = across[:-2] + 2 * across[1:-1] + across[2:]
    gy = down[:, :-2] + 2 * down[:, 1:-1] + down[:, 2:]
    return np.hypot(gx, gy)


def sobel_xp(image):
    xp = gf.namespace(image)
    across = image[:, 2:] - image[:, :-2]
    down = image[2:, :] - image[:-2, :]
    gx = across[:-2, :] + 2 * across[1:-1, :] + across[2:, :]
    gy = down[:, :-2] + 2 * down[:, 1:-1] + down[:, 2:]
    return xp.sqrt(gx * gx + gy * gy)


def gaussian_blur(image):
    padded = np.pad(image, 2, mode="edge")
    weights = (1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16)
    height, width = image.shape
    rows = sum(w * padded[i : i + height] for i, w in enumerate(weights))
    return sum(w * rows[:, i : i + width] for i, w in enumerate(weights))


def gaussian_blur_xp(image):
    xp = gf.namespace(image)
    weights = (1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16)
    height, width = image.shape
    top, bottom = image[:1, :], image[-1:, :]
    tall = xp.concat([top, top, image, bottom, bottom])
    rows = sum(w * tall[i : i + height, :] for i, w in enumerate(weights))
    left, right = rows[:, :1], rows[:, -1:]
    wide = xp.concat([left, left, rows, right, right], axis=1)
    return sum(w * wide[:, i : i + width] for i, w in enumerate(weights))


def equalise_histogram(image):
    counts = np.bincount(image.ravel(), minlength=256)
    cumulative = counts.cumsum()
    lowest = cumulative[cumulative > 0][0]
    table = (cumulative - lowest) * 255 / (image.size - lowest)
    return np.round(table).clip(0, 255).astype(np.uint8)[image]


def equalise_histogram_xp(image):
    xp = gf.namespace(image)
    ordered = xp.sort(xp.reshape(image, (-1,)))
    levels = xp.arange(256, dtype=ordered.dtype)
    cumulative = xp.astype(xp.searchsorted(ordered, levels, side="right"), xp.float64)
    lowest = xp.min(xp.where(cumulative > 0, cumulative, xp.inf))
    table = xp.clip(xp.round((cumulative - lowest) * 255 / (ordered.shape[0] - lowest)), 0, 255)
    flat = xp.take(table, xp.astype(xp.reshape(image, (-1,)), xp.int64))
    return xp.reshape(xp.astype(flat, xp.uint8), image.shape)


def box_blur(image, radius):
    size = 2 * radius + 1
    padded = np.pad(image, radius + 1, mode="reflect")
    table = padded.cumsum(axis=0).cumsum(axis=1)
    total = table[size:, size:] - table[:-size, size:] - table[size:, :-size]
    total += table[:-size, :-size]
    return total[:-1, :-1] / size**2


def box_blur_xp(image, radius):
    xp = gf.namespace(image)
    size = 2 * radius + 1
    table = xp.cumulative_sum(xp.cumulative_sum(image, axis=0), axis=1)
    total = table[size:, size:] - table[:-size, size:] - table[size:, :-size]
    return (total + table[:-size, :-size]) / size**2


def bilinear_resize(image, height, width):
    y = np.linspace(0, image.shape[0] - 1, height)
    x = np.linspace(0, image.shape[1] - 1, width)
    top = np.minimum(y.astype(int), image.shape[0] - 2)
    left = np.minimum(x.astype(int), image.shape[1] - 2)
    dy, dx = (y - top)[:, None], x - left
    rows = image[top] * (1 - dy) + image[top + 1] * dy
    return rows[:, left] * (1 - dx) + rows[:, left + 1] * dx


def bilinear_resize_xp(image, height, width):
    xp = gf.namespace(image)
    y = xp.linspace(0, image.shape[0] - 1, height, dtype=image.dtype)
    x = xp.linspace(0, image.shape[1] - 1, width, dtype=image.dtype)
    top = xp.clip(xp.astype(y, xp.int64), 0, image.shape[0] - 2)
    left = xp.clip(xp.astype(x, xp.int64), 0, image.shape[1] - 2)
    dy = xp.expand_dims(y - xp.astype(top, y.dtype), axis=1)
    dx = x - xp.astype(left, x.dtype)
    rows = xp.take(image, top, axis=0) * (1 - dy) + xp.take(image, top + 1, axis=0) * dy
    return xp.take(rows, left, axis=1) * (1 - dx) + xp.take(rows, left + 1, axis=1) * dx


def otsu_threshold(image):
    counts, edges = np.histogram(image, bins=64)
    centres = (edges[:-1] + edges[1:]) / 2
    below = np.cumsum(counts)
    above = below[-1] - below
    mass = np.cumsum(counts * centres)
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = mass / below - (mass[-1] - mass) / above
    return centres[np.nanargmax(below * above * gap**2)]


def otsu_threshold_xp(image):
    xp = gf.namespace(image)
    values = xp.sort(xp.reshape(image, (-1,)))
    n = values.shape[0]
    below = xp.arange(1, n, dtype=values.dtype)
    mass = xp.cumulative_sum(values)[:-1]
    gap = mass / below - (xp.sum(values) - mass) / (n - below)
    return values[xp.argmax(below * (n - below) * gap**2)]


def luminance(rgb):
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    grey = linear @ np.array([0.2126, 0.7152, 0.0722])
    return np.clip(116 * np.cbrt(grey) - 16, 0, 100)


def luminance_xp(rgb):
    xp = gf.namespace(rgb)
    linear = xp.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    grey = 0.2126 * linear[..., 0] + 0.7152 * linear[..., 1] + 0.0722 * linear[..., 2]
    return xp.clip(116 * grey ** (1 / 3) - 16, 0.0, 100.0)


def dilate(image):
    grown = image.copy()
    np.maximum(grown[1:], image[:-1], out=grown[1:])
    np.maximum(grown[:-1], image[1:], out=grown[:-1])
    wide = grown.copy()
    np.maximum(wide[:, 1:], grown[:, :-1], out=wide[:, 1:])
    np.maximum(wide[:, :-1], grown[:, 1:], out=wide[:, :-1])
    return wide


def dilate_xp(image):
    xp = gf.namespace(image)
    shifted = [image[i : image.shape[0] - 2 + i, :] for i in range(3)]
    rows = xp.max(xp.stack(shifted), axis=0)
    shifted = [rows[:, i : image.shape[1] - 2 + i] for i in range(3)]
    return xp.max(xp.stack(shifted), axis=0)


def blend(front, back, alpha):
    mixed = front.astype(np.float32) * alpha + back.astype(np.float32) * (1 - alpha)
    return np.clip(np.rint(mixed), 0, 255).astype(np.uint8)


def blend_xp(front, back, alpha):
    xp = gf.namespace(front)
    mixed = xp.astype(front, xp.float32) * alpha + xp.astype(back, xp.float32) * (1 - alpha)
    return xp.astype(xp.clip(xp.round(mixed), 0, 255), xp.uint8)


def with_radius(size, rng):
    return (*square(max(size, 64), rng), 2)


def with_target(size, rng):
    side = max(isqrt(size), 4)
    return (*square(max(size // 2, 64), rng), side, side + 3)


def coloured(size, rng):
    side = max(isqrt(size // 3), 4)
    return (rng.random((side, side, 3)),)


def two_pictures(size, rng):
    return (*picture(size, rng), *picture(size, rng), 0.3)


BODIES = (
    body(sobel, sobel_xp, square, nan, infinity, huge, empty),
    body(gaussian_blur, gaussian_blur_xp, square, nan, infinity, empty),
    body(equalise_histogram, equalise_histogram_xp, picture, constant, empty),
    body(box_blur, box_blur_xp, with_radius, nan, infinity),
    body(bilinear_resize, bilinear_resize_xp, with_target, nan, infinity, empty),
    body(otsu_threshold, otsu_threshold_xp, square, nan, infinity, constant),
    body(luminance, luminance_xp, coloured, nan, infinity, huge, empty),
    body(dilate, dilate_xp, square, nan, infinity, empty),
    body(blend, blend_xp, two_pictures, constant, empty),
)
