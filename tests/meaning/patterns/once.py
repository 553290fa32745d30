"""Bodies with effects: each runs exactly once for each call."""

from __future__ import annotations

import io
import itertools
import json
import logging
import random
import time

import numpy as np

from tests.meaning.arrays import mat, vec
from tests.meaning.pattern import call, pattern, scene


@pattern(lambda: (vec(4), iter([1.0, 2.0, 3.0, 4.0])))
def iterator_passed_in(x, numbers):
    return x * next(numbers)


@pattern(lambda: (vec(4), (k * 1.0 for k in range(9))))
def generator_passed_in(x, numbers):
    a = next(numbers)
    b = next(numbers)
    return x * a + b


@pattern(lambda: (v * 2 for v in (vec(3), vec(3) + 1)))
def generator_of_arrays(batches):
    total = 0.0
    for batch in batches:
        total += batch.mean()
    return total


@pattern(lambda: (vec(4), zip([1, 2], [3, 4], strict=True)))
def zip_passed_in(x, pairs):
    return [x * a + b for a, b in pairs]


@pattern(lambda: (vec(4), map(float, "123")))
def map_passed_in(x, numbers):
    return x + sum(numbers)


@pattern(lambda: (vec(4), itertools.count(1)))
def count_passed_in(x, counter):
    return x + next(counter)


@scene
def shared_iterator_over_calls(offload):
    numbers = iter(range(100))
    f = offload(lambda x, it: x + next(it))
    return [f(vec(3), numbers) for _ in range(5)], next(numbers)


@pattern(lambda: vec(4))
def print_inside(x):
    print("called with", x.shape, x.dtype)
    return x * 2


@pattern(lambda: vec(4))
def print_values(x):
    print(x)
    print("sum:", x.sum(), "first:", x[0])
    return x


@pattern(lambda: mat(2, 3))
def print_formatted_rows(x):
    for row in x:
        print(" ".join(f"{v:6.2f}" for v in row))


@pattern(lambda: (vec(4), 2))
def print_in_loop(x, n):
    for k in range(n):
        x = x * 0.5
        print(k, float(np.abs(x).max()))
    return x


@scene
def counter_of_calls(offload):
    calls = []

    @offload
    def f(x):
        calls.append(x.shape)
        return x + 1

    for n in (3, 3, 3, 4, 4, 3):
        f(vec(n))
    return calls


@scene
def logging_inside(offload):
    stream = io.StringIO()
    logger = logging.Logger("meaning")
    logger.addHandler(logging.StreamHandler(stream))

    @offload
    def f(x):
        logger.warning("largest %.3f of %d", x.max(), x.size)
        return x

    for _ in range(3):
        f(vec(4))
    return stream.getvalue()


@scene
def clock_moves(offload):
    @offload
    def f(x):
        return time.perf_counter(), x.sum()

    times = [f(vec(4))[0] for _ in range(4)]
    return times == sorted(set(times)), len(set(times))


@pattern(lambda: vec(4))
def elapsed_inside(x):
    start = time.monotonic()
    y = np.exp(x)
    return y, time.monotonic() - start < 30


@pattern(lambda: vec(4))
def numpy_random_inside(x):
    return x + np.random.normal(size=4)


@pattern(lambda: (vec(4), np.random.default_rng(5)))
def generator_argument(x, rng):
    return x + rng.standard_normal(x.shape), rng.integers(100)


@pattern(lambda: vec(4))
def seeded_inside(x):
    rng = np.random.default_rng(0)
    return x[rng.permutation(4)], rng.choice(x)


@pattern(lambda: vec(6))
def shuffle_in_place(x):
    np.random.default_rng(1).shuffle(x)
    return x


@pattern(lambda: vec(6))
def legacy_shuffle(x):
    np.random.shuffle(x)
    return x[:3]


@pattern(lambda: vec(4))
def python_random(x):
    return x * random.random(), random.choice("abc")


@pattern(lambda: (vec(4), np.random.RandomState(4)))
def dropout(x, rng):
    mask = rng.rand(*x.shape) > 0.5
    return x * mask / 0.5


@scene
def random_walk_between_calls(offload):
    step = offload(lambda x: x + np.random.choice([-1.0, 1.0], size=x.shape))
    x = np.zeros(3)
    for _ in range(5):
        x = step(x)
    return x, np.random.random()


@pattern(lambda: vec(20))
def bootstrap_mean(x):
    means = [x[np.random.randint(0, x.size, x.size)].mean() for _ in range(5)]
    return np.std(means)


@pattern(lambda: (vec(4), io.StringIO()))
def write_to_stream(x, out):
    out.write(f"{x.mean():.3f}\n")
    return out.getvalue()


@pattern(lambda: (vec(4), io.BytesIO()))
def save_to_stream(x, out):
    np.save(out, x * 2)
    return len(out.getvalue())


@pattern(lambda: (vec(6), io.StringIO("1 2 3\n4 5 6\n")))
def read_from_stream(x, source):
    return x + np.loadtxt(source).ravel()


@pattern(lambda: (vec(4), []))
def json_lines(x, lines):
    lines.append(json.dumps({"mean": float(x.mean()), "n": x.size}))
    return lines


@scene
def progress_callback(offload):
    seen = []

    @offload
    def minimise(x, callback):
        for k in range(4):
            x = x - 0.5 * x
            callback(k, float(x @ x))
        return x

    minimise(vec(3), lambda k, v: seen.append((k, v)))
    minimise(vec(3), lambda k, v: seen.append((k, v)))
    return seen


@scene
def stack_of_undo(offload):
    undo = [vec(3), vec(3) + 1, vec(3) + 2]
    f = offload(lambda x: x + undo.pop())
    return [f(vec(3)) for _ in range(3)], len(undo)


@scene
def unique_ids(offload):
    ids = itertools.count()
    f = offload(lambda x: {"id": next(ids), "value": x.sum()})
    return [f(vec(3)) for _ in range(5)]


@scene
def raise_every_other_time(offload):
    state = {"n": 0}

    @offload
    def flaky(x):
        state["n"] += 1
        if state["n"] % 2:
            raise ConnectionError(f"attempt {state['n']}")
        return x * state["n"]

    results = []
    for _ in range(5):
        try:
            results.append(flaky(vec(3)))
        except ConnectionError as error:
            results.append(str(error))
    return results, state


@scene
def retries_inside(offload):
    tries = []

    @offload
    def f(x):
        for k in range(5):
            tries.append(k)
            if x[k] > 0:
                return x / x[k]
        return x

    return f(vec(5)), f(vec(5)), f(vec(5)), tries


@scene
def context_manager_entered(offload):
    class Lock:
        entered = left = 0

        def __enter__(self):
            self.entered += 1

        def __exit__(self, *_):
            self.left += 1

    lock = Lock()

    @offload
    def f(x):
        with lock:
            return x + 1

    for _ in range(4):
        f(vec(3))
    return lock.entered, lock.left


@pattern(lambda: call(vec(4), n=2))
def input_consumed_by_pop(x, n):
    items = list(x)
    return [items.pop() for _ in range(n)], len(items)
