"""Arguments that are containers or objects: the function sees the caller's own."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np

from tests.meaning.arrays import mat, pos, vec
from tests.meaning.pattern import call, pattern, scene

Pair = namedtuple("Pair", "left right")


@dataclass
class State:
    x: np.ndarray
    step: int = 0
    log: list = field(default_factory=list)


@dataclass(frozen=True)
class Frozen:
    x: np.ndarray
    scale: float = 2.0


class Particle:
    def __init__(self) -> None:
        self.pos, self.vel = vec(3), pos(3)


class Slotted:
    __slots__ = ("data", "total")

    def __init__(self) -> None:
        self.data, self.total = vec(5), 0.0


def twice_the_same():
    x = vec(4)
    return x, x


def array_and_its_view():
    x = vec(8)
    return x, x[2:6]


@pattern(lambda: (vec(4), []))
def append_to_list(x, history):
    history.append(float(x.sum()))
    return x * 2


@pattern(lambda: (vec(4), []))
def append_array_to_list(x, history):
    y = np.tanh(x)
    history.append(y)
    return y + 1


@pattern(lambda: (vec(4), {}))
def memo_in_dict_argument(x, cache):
    if "norm" not in cache:
        cache["norm"] = np.linalg.norm(x)
    return x / cache["norm"]


@pattern(lambda: (vec(4), {"a": 1}))
def pop_from_dict(x, options):
    a = options.pop("a", 0)
    return x + a


@pattern(lambda: State(vec(4)))
def dataclass_attribute(state):
    state.x = state.x * 0.5
    state.step += 1
    return state


@pattern(lambda: State(vec(4)))
def dataclass_new_attribute(state):
    state.energy = 0.5 * np.sum(state.x**2)
    state.log.append(state.step)
    return state.energy


@pattern(lambda: (vec(4), State(pos(4))))
def dataclass_beside_array(x, state):
    state.x += x
    state.last = x - 1
    return x * state.x


@pattern(lambda: Frozen(vec(4)))
def frozen_dataclass(config):
    return config.x * config.scale


@pattern(lambda: Particle())
def object_moves(p):
    p.pos += 0.1 * p.vel
    p.vel = p.vel * 0.99
    return p


@pattern(lambda: Slotted())
def object_with_slots(s):
    s.total = float(s.data.sum())
    return s.total


@pattern(lambda: SimpleNamespace(w=mat(2, 3), b=vec(2)), lambda: SimpleNamespace(w=mat(2, 3), b=1))
def namespace_of_parameters(p):
    return p.w @ vec(3) + p.b


@pattern(twice_the_same, lambda: (vec(4), vec(4)))
def same_object_twice(x, y):
    return x is y


@pattern(twice_the_same, lambda: (vec(4), vec(4)))
def identity_decides(x, y=None):
    if y is x:
        return x @ x
    return x - y


@pattern(lambda: vec(4))
def return_argument_itself(x):
    return x


@pattern(lambda: (vec(4), False), lambda: (vec(4), True))
def return_argument_or_copy(x, copy):
    return x.copy() if copy else x


@pattern(lambda: [vec(3), pos(3)])
def return_list_argument(arrays):
    arrays[0] = arrays[0] + arrays[1]
    return arrays


@pattern(lambda: OrderedDict(a=vec(3), b=pos(3)))
def ordered_dict(d):
    d.move_to_end("a")
    d["c"] = d["a"] * d["b"]
    return d


@pattern(lambda: OrderedDict(a=vec(3)))
def ordered_dict_value_written(d):
    d["a"] *= 2
    return d["a"]


@pattern(lambda: (vec(4), defaultdict(list)))
def default_dict(x, groups):
    for v in x:
        groups["neg" if v < 0 else "pos"].append(v)
    return groups


@pattern(lambda: (vec(6), Counter()))
def counter_of_signs(x, counts):
    counts.update(np.sign(x).astype(int).tolist())
    return len(counts)


@pattern(lambda: (vec(4), deque(maxlen=2)))
def window_of_arrays(x, window):
    for k in range(3):
        window.append(x + k)
    return sum(window)


@pattern(lambda: Pair(vec(3), pos(3)))
def named_tuple(p):
    return p._replace(left=p.left + p.right)


@pattern(lambda: {"w": mat(2, 3), "b": vec(2)})
def dict_of_weights(params):
    for key in params:
        params[key] = params[key] * 0.9
    return params["w"].sum() + params["b"].sum()


@pattern(lambda: ({"a": {"x": vec(3)}}, 2.0))
def nested_dict_written(tree, s):
    tree["a"]["x"] *= s
    tree["a"]["y"] = tree["a"]["x"].sum()
    return tree["a"]["y"]


@pattern(lambda: vec(6))
def returned_view_can_be_written(x):
    return x[1:4]


@scene
def write_to_returned_view(offload):
    @offload
    def tail(x):
        return x[2:]

    x = vec(6)
    t = tail(x)
    t[0] = 100.0
    again = tail(x)
    again += 1
    return x, t, again


@scene
def write_to_returned_reshape(offload):
    as_matrix = offload(lambda x: x.reshape(2, 3))
    x = vec(6)
    for k in range(3):
        m = as_matrix(x)
        m[:, k] = k
    return x, m


@scene
def returned_transpose_follows_argument(offload):
    flip = offload(lambda x: x.T)
    x = mat(2, 3)
    t = flip(x)
    x[0, 2] = 9.0
    return t, flip(x)


@scene
def result_written_then_reused(offload):
    double = offload(lambda x: x * 2)
    x = vec(4)
    results = [double(x) for _ in range(3)]
    results[0][:] = 0
    results[1].sort()
    return results, x


@scene
def fresh_result_is_resizable(offload):
    y = offload(lambda x: np.sqrt(np.abs(x)))(vec(4))
    y.shape = (2, 2)
    y.fill(3)
    return y


@pattern(array_and_its_view)
def argument_with_its_view(x, v):
    v += 1
    return x.sum()


@pattern(lambda: call(vec(4), out=[]))
def keyword_list(x, out=None):
    if out is None:
        out = []
    out.extend(x.tolist())
    return out


@pattern(lambda: (vec(3), {1, 2}))
def set_argument(x, seen):
    seen.add(int(x.size))
    return x


@pattern(lambda: ([vec(2), vec(3)], vec(2)))
def list_contains_argument(arrays, x):
    arrays.insert(0, x)
    return len(arrays), arrays[0] is x


@pattern(lambda: (lambda v: v * 2, vec(3)))
def function_as_argument(g, x):
    return g(x) + g(1)


@pattern(lambda: call(vec(4), callback=print))
def callback_argument(x, callback):
    callback("sum", round(float(x.sum()), 3))
    return x


@pattern(lambda: (vec(3), ...), lambda: (vec(3), slice(1, None)))
def slice_as_argument(x, where):
    return x[where] * 2


@pattern(lambda: (vec(4), np.float32), lambda: (vec(4), int), lambda: (vec(4), "f2"))
def dtype_as_argument(x, dtype):
    return x.astype(dtype)


@pattern(lambda: (vec(4), np.sin), lambda: (vec(4), np.square), lambda: (vec(4), abs))
def ufunc_as_argument(x, g):
    return g(x)
