"""Bodies over points, polygons and rotations."""

from __future__ import annotations

from math import isqrt

import numpy as np

import gpuforge as gf
from everyday.body import body, constant, empty, huge, infinity, nan, out_of_range, rows, zero


def haversine(places, home):
    lat, lon = np.radians(places).T
    lat0, lon0 = np.radians(home)
    a = np.sin((lat - lat0) / 2) ** 2 + np.cos(lat) * np.cos(lat0) * np.sin((lon - lon0) / 2) ** 2
    return 2 * 6371.0 * np.arcsin(np.sqrt(a))


def haversine_xp(places, home):
    xp = gf.namespace(places)
    lat, lon = places[:, 0] * xp.pi / 180, places[:, 1] * xp.pi / 180
    lat0, lon0 = home[0] * xp.pi / 180, home[1] * xp.pi / 180
    a = xp.sin((lat - lat0) / 2) ** 2 + xp.cos(lat) * xp.cos(lat0) * xp.sin((lon - lon0) / 2) ** 2
    return 2 * 6371.0 * xp.asin(xp.sqrt(a))


def points_in_polygon(points, polygon):
    x, y = points[:, 0], points[:, 1]
    inside = np.zeros(len(points), dtype=bool)
    for (x0, y0), (x1, y1) in zip(polygon, np.roll(polygon, -1, axis=0), strict=True):
        crosses = (y0 > y) != (y1 > y)
        inside ^= crosses & (x < (x1 - x0) * (y - y0) / (y1 - y0) + x0)
    return inside


def points_in_polygon_xp(points, polygon):
    xp = gf.namespace(points)
    x, y = xp.expand_dims(points[:, 0], axis=1), xp.expand_dims(points[:, 1], axis=1)
    x0, y0 = polygon[:, 0], polygon[:, 1]
    x1, y1 = xp.roll(x0, -1), xp.roll(y0, -1)
    crosses = (y0 > y) != (y1 > y)
    hits = crosses & (x < (x1 - x0) * (y - y0) / (y1 - y0) + x0)
    return xp.sum(xp.astype(hits, xp.int64), axis=1) % 2 == 1


def rotate(points, angle):
    c, s = np.cos(angle), np.sin(angle)
    centre = points.mean(axis=0)
    return (points - centre) @ np.array([[c, s], [-s, c]]) + centre


def rotate_xp(points, angle):
    xp = gf.namespace(points)
    c, s = np.cos(angle), np.sin(angle)
    centre = xp.mean(points, axis=0)
    turn = xp.asarray([[c, s], [-s, c]], dtype=points.dtype)
    return (points - centre) @ turn + centre


def triangle_areas(vertices, faces):
    a, b, c = vertices[faces].transpose(1, 0, 2)
    normals = np.cross(b - a, c - a)
    return 0.5 * np.linalg.norm(normals, axis=1)


def triangle_areas_xp(vertices, faces):
    xp = gf.namespace(vertices)
    a, b, c = (xp.take(vertices, faces[:, i], axis=0) for i in range(3))
    normals = xp.linalg.cross(b - a, c - a)
    return 0.5 * xp.linalg.vector_norm(normals, axis=1)


def shoelace(polygon):
    x, y = polygon.T
    return 0.5 * abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1)))


def shoelace_xp(polygon):
    xp = gf.namespace(polygon)
    x, y = polygon[:, 0], polygon[:, 1]
    return 0.5 * xp.abs(xp.sum(x * xp.roll(y, 1) - y * xp.roll(x, 1)))


def hits_sphere(origins, directions, radius):
    b = np.einsum("ij,ij->i", origins, directions)
    c = (origins**2).sum(-1) - radius**2
    d = b * b - c
    distance = np.full(len(origins), np.inf)
    found = d >= 0
    distance[found] = -b[found] - np.sqrt(d[found])
    return distance


def hits_sphere_xp(origins, directions, radius):
    xp = gf.namespace(origins)
    b = xp.sum(origins * directions, axis=-1)
    d = b * b - xp.sum(origins**2, axis=-1) + radius**2
    near = -b - xp.sqrt(xp.where(d >= 0, d, xp.zeros_like(d)))
    return xp.where(d >= 0, near, xp.inf)


def quaternion_turn(points, q):
    w, v = q[0], q[1:]
    t = 2 * np.cross(v, points)
    return points + w * t + np.cross(v, t)


def quaternion_turn_xp(points, q):
    xp = gf.namespace(points)
    v = xp.broadcast_to(q[1:], points.shape)
    t = 2 * xp.linalg.cross(v, points)
    return points + q[0] * t + xp.linalg.cross(v, t)


def nearest_neighbour(points, others):
    d2 = ((points[:, np.newaxis] - others) ** 2).sum(axis=-1)
    nearest = d2.argmin(axis=1)
    return nearest, np.sqrt(d2[np.arange(len(points)), nearest])


def nearest_neighbour_xp(points, others):
    xp = gf.namespace(points)
    d2 = xp.sum((xp.expand_dims(points, axis=1) - others) ** 2, axis=-1)
    return xp.argmin(d2, axis=1), xp.sqrt(xp.min(d2, axis=1))


def bounding_box(points):
    low, high = points.min(axis=0), points.max(axis=0)
    return (points - low) / (high - low).max(), np.prod(high - low)


def bounding_box_xp(points):
    xp = gf.namespace(points)
    low, high = xp.min(points, axis=0), xp.max(points, axis=0)
    return (points - low) / xp.max(high - low), xp.prod(high - low)


def places(size, rng):
    found = rng.random((max(size // 2, 2), 2)) * np.array([180, 360]) - np.array([90, 180])
    return found, np.array([52.5, 13.4])


def star(size, rng):
    angles = np.linspace(0, 2 * np.pi, 12, endpoint=False)
    spikes = np.stack([np.cos(angles), np.sin(angles)], axis=1) * (1 + np.arange(12)[:, None] % 2)
    return rng.uniform(-2, 2, (max(size // 12, 2), 2)), spikes


def turned(size, rng):
    return (*rows(2)(size, rng), 0.7)


def mesh(size, rng):
    n = max(size // 9, 3)
    return rng.random((n, 3)), rng.integers(0, n, (n, 3))


def rays(size, rng):
    n = max(size // 6, 2)
    directions = rng.standard_normal((n, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return 3 * rng.standard_normal((n, 3)), directions, 2.0


def spun(size, rng):
    q = rng.standard_normal(4)
    return (*rows(3)(size, rng), q / np.linalg.norm(q))


def two_clouds(size, rng):
    n = max(isqrt(size // 3), 2)
    return rng.random((n, 3)), rng.random((n, 3))


BODIES = (
    body(haversine, haversine_xp, places, nan, infinity, huge, empty),
    body(points_in_polygon, points_in_polygon_xp, star, nan, infinity, constant),
    body(rotate, rotate_xp, turned, nan, infinity, huge, empty),
    body(triangle_areas, triangle_areas_xp, mesh, nan, infinity, out_of_range, huge),
    body(shoelace, shoelace_xp, rows(2), nan, infinity, huge, empty),
    body(hits_sphere, hits_sphere_xp, rays, nan, infinity, zero, huge, empty),
    body(quaternion_turn, quaternion_turn_xp, spun, nan, infinity, huge),
    body(nearest_neighbour, nearest_neighbour_xp, two_clouds, nan, infinity, constant, empty),
    body(bounding_box, bounding_box_xp, rows(3), nan, infinity, constant, huge, empty),
)
