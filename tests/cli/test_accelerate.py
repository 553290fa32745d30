"""``gpuforge run --accelerate``: plain programs behave as under ``python``, and their functions run
where they were placed.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import re
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest

from gpuforge.cli.own_code import is_own, project_folder
from gpuforge.runtime import accelerated
from gpuforge.runtime.accelerated import CALLS_WITHOUT_ARRAY, Accelerated
from gpuforge.runtime.function import entry

RUN = ["-m", "gpuforge", "run", "--accelerate"]
TOO_ON_TORCH = (
    "functions",
    "logs",
    "methods",
    "uncaught in numpy",
    "caught",
    "effects",
    "callbacks",
)
"""Programs that are also run with their functions pinned to another library than NumPy."""

SHAPES = """
import numpy as np
from dataclasses import dataclass

SCALE = 2.0

def norm(x, eps=1e-9, *, scale=1.0):
    "Centre and scale."
    return (x - x.mean()) / (x.std() + eps) * scale

def fails(x, y):
    z = x * SCALE
    if z.sum() > 0:
        raise ValueError("too large", z.shape)
    return z + y

def mismatched(x, y):
    return x @ y

class Model:
    def __init__(self, k):
        self.k = k
    def score(self, x):
        return np.tanh(x * self.k)
    def __call__(self, x):
        return self.score(x) + 1
    @staticmethod
    def twice(x):
        return x * 2
    @classmethod
    def make(cls, k):
        return cls(k + 1)
    @property
    def half(self):
        return self.k / 2

class Deeper(Model):
    def score(self, x):
        return super().score(x) * 2

@dataclass
class Pair:
    x: np.ndarray
    def total(self, y):
        return (self.x + y).sum()
"""

# Each is a whole script; shapes.py lies beside it.
PROGRAMS = {
    "functions": """
        import numpy as np
        from shapes import norm
        def work(x, k=2):
            return np.sqrt(x) * k + norm(x)
        x = np.arange(1.0, 1001.0)
        for i in range(4):
            print(round(float(work(x, k=i).sum()), 6), work(x).dtype, type(work(x).sum()))
    """,
    "methods": """
        import numpy as np
        from shapes import Deeper, Model, Pair
        x = np.linspace(0, 1, 500)
        for model in Model(2), Deeper(3), Model.make(1):
            print(model.score(x).sum().round(6), model(x).sum().round(6), model.twice(x)[-1])
            print(model.half, model.score.__self__ is model, Model.score.__name__)
        print(Pair(x).total(x).round(6))
    """,
    "identity": """
        import inspect, pickle
        import numpy as np
        import shapes
        def work(x: int, /, y=3, *rest, k=2, **more) -> float:
            "Work."
            return np.add(x, y) * k
        TABLE = {"work": work, "norm": shapes.norm}
        print(TABLE["work"] is work, TABLE["norm"] is shapes.norm, inspect.isfunction(work))
        print(inspect.signature(work), inspect.signature(shapes.norm), work.__doc__)
        print(type(work), work.__qualname__)
        print(inspect.getsource(work), inspect.getsourcelines(shapes.norm), work.__annotations__)
        print(work.__defaults__, work.__kwdefaults__, hasattr(work, "__wrapped__"), vars(work))
        print(pickle.loads(pickle.dumps(work)) is work, pickle.loads(pickle.dumps(shapes.norm)))
        print(work(np.ones(3)), TABLE["work"](np.ones(2), 5, 6, k=7, z=1), work.__module__)
    """,
    "uncaught": """
        import numpy as np
        import shapes
        def outer(x):
            y = x * 2
            return shapes.fails(y, x)
        outer(np.ones(100))
    """,
    "uncaught in numpy": """
        import numpy as np
        def work(x, y):
            z = x + 1
            return z @ y
        work(np.ones((3, 4)), np.ones(5))
    """,
    "caught": """
        import traceback
        import numpy as np
        import shapes
        x = np.ones(10)
        for function, args in ((shapes.fails, (x, x)), (shapes.fails, (x,)), (shapes.norm, ())):
            try:
                function(*args)
            except Exception as error:
                print(repr(error), error.args)
                print(traceback.format_exc())
    """,
    "import fails": """
        import broken
    """,
    "imports warn": """
        import builtins, sys
        import warns
        import json.tool, warns
        def f(x):
            return x + 1
        try:
            import missing
        except ImportError:
            import traceback
            print(traceback.format_exc())
        try:
            import broken
        except ZeroDivisionError:
            print(traceback.format_exc())
        def g(x):
            return x + 2
        print(f(1), g(2), builtins.__import__, sys.gettrace())
    """,
    "sys.exit": """
        import sys
        import numpy as np
        def leave(x):
            if (x > 0).all():
                sys.exit(int(x.sum()))
        leave(np.ones(7))
    """,
    "recursion": """
        import numpy as np
        def halve(x):
            return x if len(x) < 2 else np.concatenate([halve(x[::2]), halve(x[1::2])]) * 2
        def down(n):
            return n if n <= 0 else down(n - 1)
        print(halve(np.arange(8.0)), down(900))
        def deeper(n):
            return deeper(n + 1) + 1
        try:
            deeper(0)
        except RecursionError as error:
            print(error)
    """,
    "recursive methods": """
        import numpy as np
        class Tree:
            def down(self, x, left):
                return self.over(x, left - 1) + 1 if left else x
            def over(self, x, left):
                return self.down(x * 1, left)
        print(Tree().down(np.ones(2), 450), Tree().down(1, 450))
    """,
    "later pieces": """
        import asyncio
        import numpy as np
        def pieces(x):
            for i in range(3):
                yield x * i
        async def later(x):
            return x + 1
        def counted(x):
            counted.calls += 1
            return x + counted.calls
        counted.calls = 0
        total = 0
        def adds(x):
            global total
            total += float(x.sum())
            return total
        x = np.ones(4)
        print([p.sum() for p in pieces(x)], asyncio.run(later(x)), counted(x), counted(x), adds(x))
        print(adds(x), counted.calls, total)
    """,
    "frames": """
        import inspect, sys, warnings
        import numpy as np
        def who(x):
            return x.sum() + len(inspect.stack()), sys._getframe(1).f_code.co_name
        def warns(x):
            warnings.warn("once", stacklevel=2)
            return x * 2
        def names(x):
            y = x + 1
            return sorted(locals())
        x = np.ones(3)
        print(who(x), warns(x), names(x))
    """,
    "effects": """
        import numpy as np
        def says(x):
            print("once", x.sum())
            return x * 2
        def inner(x):
            return says(x) + 1
        rng = np.random.default_rng(0)
        def draws(x):
            return x + rng.normal(size=x.shape)
        def fills(out, x):
            out[:] = x * 2
            out += 1
        x, out = np.arange(4.0), np.zeros(4)
        print(inner(x), draws(x), draws(x), fills(out, x), out)
    """,
    "decorated": """
        import functools
        import numpy as np
        seen = []
        def register(function):
            seen.append(function)
            return function
        def doubled(function):
            @functools.wraps(function)
            def call(*args):
                return function(*args) * 2
            return call
        @register
        def one(x):
            return x + 1
        @doubled
        def two(x):
            return x + 2
        @functools.lru_cache
        def three(x):
            return x + 3
        print(one is seen[0], one(np.ones(2)), two(np.ones(2)), three(1), three.cache_info())
    """,
    "spawn": """
        import multiprocessing
        import numpy as np
        from shapes import norm
        def work(x):
            return float((x * 2).sum())
        if __name__ == "__main__":
            print(work(np.ones(3)))
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(work, [np.ones(n) for n in (1, 2)]))
                print(pool.map(norm, [np.arange(3.0)]))
    """,
    "numbers only": """
        def add(a, b=1):
            return a + b
        code = add.__code__.co_code
        for i in range(100):
            add(i)
        print(add(1), add.__code__.co_varnames)
    """,
    "callbacks": """
        import functools
        import numpy as np
        def f(x):
            return (x ** 2).sum()
        def apply(function, x):
            return function(x) * 2
        x = np.arange(5.0)
        print(apply(f, x), functools.partial(apply, f)(x), list(map(f, [x, x])))
        print(apply(lambda y: y, x))
        print(np.apply_along_axis(f, 0, np.ones((3, 2))), np.vectorize(lambda v: v + 1)(x))
    """,
    "defined in parts": """
        import numpy as np
        def first(x):
            return x + 1
        print(first(np.ones(2)))
        if True:
            def second(x):
                return first(x) * 2
        for i in range(3):
            def third(x):
                return x - i
            print(second(np.ones(2)), third(np.ones(2)))
        def first(x):
            return x + 10
        print(second(np.ones(2)), [first(np.ones(1)) for _ in range(2)])
        import sys
        print(sys.gettrace(), sys._getframe().f_trace)
    """,
    "logs": """
        import logging
        import sys
        import numpy as np
        logging.basicConfig(stream=sys.stdout, level=logging.INFO)
        kept = []
        def keep(x):
            kept.append(x * 2)
            return x.sum()
        for i in range(3):
            print(keep(np.arange(4.0)))
        logging.getLogger("own").warning("told %s", kept)
    """,
    "long before the last": """
        import gc
        import sys
        import numpy as np
        def count(n):
            for i in map(lambda i: i + 1, range(n)):
                pass
            return i
        print(count(20_000), sys.gettrace())
        for i in range(20_000):
            pass
        print(sys.gettrace())
        gc.collect()
        def late(x):
            return x + 1
        print(late(np.ones(2)), sys.gettrace(), len(gc.callbacks))
    """,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shapes.py").write_text(SHAPES)
    (tmp_path / "broken.py").write_text("import numpy\ndef f(x):\n    return 1 / x\nf(0)\n")
    (tmp_path / "warns.py").write_text(
        "import warnings\nwarnings.warn('old', DeprecationWarning, stacklevel=2)\n"
    )
    return tmp_path


def start(words: list[str], folder: Path) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        timeout=120,
    )
    return done.returncode, *(re.sub("0x[0-9a-f]{6,}", "0x", t) for t in (done.stdout, done.stderr))


def write(name: str, folder: Path) -> None:
    (folder / "program.py").write_text(textwrap.dedent(PROGRAMS[name]).lstrip())


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_unchanged_program_behaves_as_under_python(name: str, folder: Path) -> None:
    write(name, folder)
    plain = start(["program.py"], folder)
    assert start([*RUN, "--quiet", "program.py"], folder) == plain
    if name in TOO_ON_TORCH and importlib.util.find_spec("torch"):
        assert start([*RUN, "--quiet", "--backend", "torch", "program.py"], folder) == plain


@pytest.mark.parametrize("name", ["functions", "uncaught"])
def test_a_module_behaves_as_under_python(name: str, folder: Path) -> None:
    write(name, folder)
    plain = start(["-m", "program", "a"], folder)
    assert start([*RUN, "--quiet", "-m", "program", "a"], folder) == plain


def test_the_summary_names_what_was_accelerated(folder: Path) -> None:
    pytest.importorskip("torch")
    write("functions", folder)
    status, _, said = start([*RUN, "--backend", "torch", "program.py"], folder)
    assert status == 0
    assert "accelerated functions: work\n" in said
    assert re.search(r"^  work +12 .* torch:cpu 12×", said, re.MULTILINE), said
    write("effects", folder)
    _, _, said = start([*RUN, "program.py"], folder)
    assert re.search(r"not accelerated: .*program.py:2: says: it uses 'print'", said), said


def test_a_function_defined_after_long_work_is_accelerated(folder: Path) -> None:
    write("long before the last", folder)
    _, _, said = start([*RUN, "program.py"], folder)
    assert re.search(r"^  late +1 ", said, re.MULTILINE), said


def test_without_the_flag_nothing_is_placed(folder: Path) -> None:
    write("functions", folder)
    _, _, said = start(["-m", "gpuforge", "run", "program.py"], folder)
    assert "no offloaded functions were called" in said


def made(source: str) -> dict[str, Any]:
    space: dict[str, Any] = {"__name__": "made", "np": np}
    exec(compile(textwrap.dedent(source), "made.py", "exec"), space)
    return space


def test_a_function_without_arrays_gets_its_own_code_back() -> None:
    space = made("def add(a, b=1):\n    return a + b\n")
    add = space["add"]
    own = add.__code__
    accelerated.accelerate(space, "made.py")
    found = accelerated.FOUND.pop()
    assert add.__code__ is not own and entry.written(add.__code__) is own
    assert [add(i) for i in range(CALLS_WITHOUT_ARRAY)] == list(range(1, CALLS_WITHOUT_ARRAY + 1))
    assert add.__code__ is own and found.left.startswith("no array among")


def test_a_function_that_was_left_alone_is_not_found_again() -> None:
    """A main module is searched after each of its definitions."""
    space = made("def add(a, b=1):\n    return a + b\n")
    own = space["add"].__code__
    accelerated.accelerate(space, "made.py")
    for i in range(CALLS_WITHOUT_ARRAY):
        space["add"](i)
    accelerated.accelerate(space, "made.py")
    accelerated.FOUND.pop()
    assert not accelerated.FOUND
    assert space["add"].__code__ is own


def test_a_function_that_cannot_be_placed_gets_its_own_code_back() -> None:
    space = made("def add(a, b=1):\n    return a + b\n")
    accelerated.accelerate(space, "made.py")
    found = accelerated.FOUND.pop()
    words = np.array(["a", "b"], dtype=object)
    for _ in range(2 * accelerated.LOOKED_AT_EVERY + 2):
        space["add"](words, "c")
    assert space["add"].__code__ is found.written
    assert found.left


def test_a_function_of_many_short_calls_gets_its_own_code_back() -> None:
    space = made("def add(a, b=1):\n    return a + b\n")
    accelerated.accelerate(space, "made.py")
    found = accelerated.FOUND.pop()
    x = np.ones(2)
    with warnings.catch_warnings():  # calls are made as written where these are errors
        warnings.simplefilter("default")
        for _ in range(accelerated.SHORT_CALLS // 2):
            space["add"](x)
        assert not found.left
        for _ in range(accelerated.SHORT_CALLS):
            space["add"](x)
    assert found.left.startswith("its calls are short: ")


def test_few_functions_are_disassembled(monkeypatch: pytest.MonkeyPatch) -> None:
    space = made("def add(a, b=1):\n    return a + b\n")
    monkeypatch.setattr(accelerated.dis, "get_instructions", None)  # it takes milliseconds
    accelerated.accelerate(space, "made.py")
    accelerated.FOUND.pop().leave("")


def test_calls_of_other_threads_are_no_recursion() -> None:
    space = made("def add(a, b=1):\n    return b and a + b\n")
    accelerated.accelerate(space, "made.py")
    found = accelerated.FOUND.pop()
    found.depth = accelerated.DEPTH + 1
    assert space["add"](1) == 2 and not found.left
    found.leave("")


@pytest.mark.parametrize(
    "source",
    [
        "def f(x):\n    yield x + 1",
        "async def f(x):\n    return x + 1",
        "def f(x):\n    return sorted(locals())",
        "def f():\n    return 1 + 2",
        "def f(x):\n    return x",
        "def f(x):\n    return f(x - 1)",
        "def f(x):\n    x.y = x + 1",
        "f = (lambda y: lambda x: x + y)(1)",
        "class f:\n    def __add__(self, x):\n        return x + 1",
        "f = exec",
    ],
)
def test_what_is_left_alone_from_the_start(source: str) -> None:
    space = made(source)
    accelerated.accelerate(space, "made.py")
    assert not accelerated.FOUND
    space["__name__"] = "other"
    accelerated.accelerate({**space, "g": start}, "another.py")
    assert not accelerated.FOUND


def test_arguments_of_every_kind_are_handed_on() -> None:
    space = made(
        """
        def f(a, /, b, c=3, *rest, d, entry=5, error=6, **more):
            return a + b, c, rest, d, entry, error, more
        def g(*, k=1):
            return k + 1
        def h(*rest):
            return rest + (1,)
        """
    )
    expected = [space["f"](1, 2, d=4), space["f"](1, 2, 3, 4, 5, d=6, error=7, z=8, a=9)]
    accelerated.accelerate(space, "made.py")
    assert len(accelerated.FOUND) == 3
    accelerated.FOUND.clear()
    assert [space["f"](1, 2, d=4), space["f"](1, 2, 3, 4, 5, d=6, error=7, z=8, a=9)] == expected
    assert (space["g"](), space["g"](k=4), space["h"](), space["h"](7)) == (2, 5, (1,), (7, 1))
    with pytest.raises(TypeError, match=r"^f\(\) missing 1 required keyword-only argument: 'd'$"):
        space["f"](1, 2)


def test_an_entry_is_pickled_as_the_function_it_leads_to() -> None:
    found = Accelerated(FunctionType(start.__code__, globals(), "start"))
    found.plain = start
    assert pickle.loads(pickle.dumps(found)) is start


def test_which_files_are_the_users(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    inner = tmp_path / "src" / "pack"
    inner.mkdir(parents=True)
    folder = project_folder(str(inner))
    assert folder == os.path.realpath(tmp_path)
    assert is_own(str(inner / "a.py"), folder)
    assert not is_own(str(tmp_path / ".venv/lib/site-packages/numpy/a.py"), folder)
    assert not is_own(os.__file__, os.path.dirname(os.path.dirname(os.__file__)))
    assert not is_own(accelerated.__file__, os.path.realpath(os.sep))
    assert not is_own(f"{folder}-other/a.py", folder)
