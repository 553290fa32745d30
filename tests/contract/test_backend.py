"""One contract for every backend: arrays go there and back unchanged, answers are NumPy's,
what is not is declared, memory that runs out is recognised, threads and settings are left alone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from hypothesis.extra.array_api import make_strategies_namespace

import gpuforge as gf
from gpuforge.runtime.backends import NotExact
from gpuforge.runtime.execution import Program, raised_by_user, try_backend
from gpuforge.runtime.reference import CANCELLING, ELEMENTWISE, compare, describe
from gpuforge.runtime.structure import flatten

from ..runtime.conftest import as_numpy, same
from ..runtime.test_meaning import CASES

DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
FEW = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
BASE = np.arange(24, dtype=np.float32).reshape(4, 6)
LAYOUTS = {
    "C": BASE,
    "F": np.asfortranarray(BASE),
    "strided": BASE[::2, 1::3],
    "reversed": BASE[::-1, ::-1],
    "broadcast": np.broadcast_to(BASE[0], (4, 6)),
    "transposed": BASE.reshape(2, 3, 4).transpose(2, 0, 1),
    "big-endian": BASE.astype(">f4"),
    "empty": np.empty((0, 3), np.float32),
    "empty inside": np.empty((2, 0, 3), np.float32),
    "0-d": np.array(2.5, np.float32),
    "one": np.ones((1, 1, 1), np.float32),
    "unaligned": np.frombuffer(b"\0" + BASE.tobytes(), "u1")[1:].view(np.float32),
}


def try_on(backend: Any, function: Any, *arguments: Any, exact: bool = True) -> str:
    """Return why `backend` may not run a call, as a trial finds it; empty when it agrees."""
    leaves: list[Any] = []
    spec = flatten((arguments, {}), leaves)
    expected = function(*arguments)
    template = describe(expected, tuple(leaves))
    assert not isinstance(template, str)
    program = Program(backend, function, spec, copies=False)
    copies = tuple(a.copy() if isinstance(a, np.ndarray) else a for a in leaves)
    return try_backend(program, copies, template, expected, floor=CANCELLING, exact=exact).refused


def round_trip(backend: Any, array: np.ndarray[Any, Any], *, share: bool) -> None:
    before = array.copy()
    try:
        with backend.scope():
            there = backend.put(array, share=share)
    except NotExact as reason:
        assert str(reason)
        return
    back = backend.get(there if backend.is_array(there) else np.asarray(there))
    assert back.shape == array.shape
    assert back.dtype == array.dtype.newbyteorder("=") or back.dtype == array.dtype
    assert np.array_equal(back, before, equal_nan=before.dtype.kind in "fc")
    if before.dtype.kind == "f":
        assert np.array_equal(np.signbit(back), np.signbit(before))
    assert array.tobytes() == before.tobytes()


class TestArrays:
    @pytest.mark.parametrize("share", [True, False])
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_every_dtype_comes_back_as_it_went_or_is_refused(
        self, dtype: str, share: bool, backend: Any
    ) -> None:
        values = np.array([[0, 1, 2], [3, 100, 7]]).astype(dtype)
        round_trip(backend, values, share=share)

    @pytest.mark.parametrize("share", [True, False])
    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_every_layout_comes_back(self, layout: str, share: bool, backend: Any) -> None:
        round_trip(backend, LAYOUTS[layout], share=share)
        read_only = LAYOUTS[layout].view()
        read_only.flags.writeable = False
        round_trip(backend, read_only, share=share)

    @FEW
    @given(data=st.data())
    def test_any_shape_and_value_comes_back(self, data: Any, backend: Any) -> None:
        dtype = data.draw(st.sampled_from(DTYPES).map(np.dtype))
        shape = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
        round_trip(backend, data.draw(arrays.arrays(dtype, shape)), share=data.draw(st.booleans()))

    def test_a_copy_is_independent_of_the_users_array(self, backend: Any) -> None:
        data = BASE.copy()
        with backend.scope():
            there = backend.put(data, share=False)
        data[...] = -1
        back = backend.get(there) if backend.is_array(there) else np.asarray(there)
        assert np.array_equal(back, BASE)

    def test_only_its_own_arrays_are_its_arrays(self, backend: Any) -> None:
        for value in (1, 2.0, "x", None, [1.0], object()):
            assert not backend.is_array(value)


def expression(xp: Any, x: Any, y: Any) -> Any:
    return xp.sqrt(xp.abs(x)) + y * x - y


class TestAnswers:
    @pytest.mark.parametrize("name", CASES)
    def test_answer_is_numpys(self, name: str, backend: Any, library_of: str) -> None:
        if library_of in ("torch", "jax", "null", "numpy"):
            pytest.skip("covered by tests/runtime/test_meaning.py, or the reference itself")
        function, arguments = CASES[name]
        with warnings.catch_warnings(), gf.session(history=False):
            warnings.simplefilter("ignore")
            expected = as_numpy(function, *arguments)
            placed = gf.offload(backend=library_of, fallback=True)(function)
            copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
            for _ in range(3):
                found = as_numpy(placed, *arguments)
                if isinstance(expected, Exception):
                    assert (type(found), str(found)) == (type(expected), str(expected))
                else:
                    same(expected, found)
        for before, after in zip(copies, arguments, strict=True):
            if isinstance(before, np.ndarray):
                assert np.array_equal(before, after, equal_nan=before.dtype.kind in "fc")

    def test_ordinary_float32_functions_do_run_there(self, backend: Any) -> None:
        a, b = BASE + 1, BASE[::-1] * 0.5 + 2
        for function in (
            lambda x, y: x * 2 + y,
            lambda x, y: gf.namespace(x).exp(-x) / y,
            lambda x, y: gf.namespace(x).sum(x * y),
        ):
            assert try_on(backend, function, a, b) == ""

    @FEW
    @given(data=st.data())
    def test_an_expression_over_any_values_is_numpys_or_refused(
        self, data: Any, backend: Any
    ) -> None:
        xps = make_strategies_namespace(np, api_version="2023.12")
        dtype = data.draw(st.sampled_from([np.float32, np.float64]))
        shape = data.draw(xps.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=6))
        values = xps.arrays(dtype, shape, elements={"allow_subnormal": False})
        x, y = data.draw(values), data.draw(values)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = expression(np, x, y)
            try:
                with backend.scope():
                    there = [backend.put(v, share=True) for v in (x, y)]
                    function = backend.program(lambda p, q: expression(backend.namespace(), p, q))
                    made = function(*there)
                    backend.wait(made)
                found = backend.get(made)
            except NotExact:
                return
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=tiny(x, y))


def tiny(x: Any, y: Any) -> float:
    """Return how far a fused multiply-add may be off where terms cancel."""
    with np.errstate(all="ignore"):
        terms = np.abs(np.concatenate([(x * y).ravel(), y.ravel(), x.ravel()]))
    return float(np.max(terms, where=np.isfinite(terms), initial=0.0)) * 1e-6


SPECIAL = np.array([1, np.nan, -np.inf, 3, -0.0, 0.0, np.inf, 2.5, -1.5, 1e30, -7, 0.5])
WHOLE = np.array([5, -3, 0, 7, 2**31 - 1, -(2**31), 1, 2], np.int32)
OTHER = np.array([0, 2, 0, -3, 5, -1, 40, -2], np.int32)
UNARY = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh exp expm1 floor isfinite isinf isnan log"
    " log10 log1p log2 logical_not negative round sign sin sinh sqrt square tan tanh trunc"
)
REDUCING = (
    "max min argmax argmin sum prod mean sort argsort any all cumulative_sum count_nonzero flip"
)
BINARY = (
    "add subtract multiply divide floor_divide remainder maximum minimum pow atan2 less equal"
    " logical_and"
)
INTEGER = (
    "add subtract multiply floor_divide remainder pow bitwise_left_shift bitwise_right_shift"
    " maximum bitwise_and bitwise_xor divide"
)


def _steps() -> dict[str, tuple[str, tuple[Any, ...]]]:
    found = {}
    for dtype in (np.float32, np.float64):
        x = SPECIAL.astype(dtype)
        for name in (UNARY + " " + REDUCING).split():
            found[f"{name} {x.dtype}"] = (name, (x,))
        for name in BINARY.split():
            found[f"{name} {x.dtype}"] = (name, (x, x[::-1].copy()))
    for name in ("abs negative sign square max sum sort argsort cumulative_sum any").split():
        found[f"{name} int32"] = (name, (WHOLE,))
    for name in INTEGER.split():
        found[f"{name} int32"] = (name, (WHOLE, OTHER))
    return found


STEPS = _steps()


@pytest.mark.filterwarnings("ignore")
def test_a_step_on_special_values_is_numpys_or_declared(backend: Any) -> None:
    """NaN, infinities, signed zeros, overflow, division by zero: tried one by one."""
    wrong = []
    for text, (name, arguments) in STEPS.items():
        expected = as_numpy(getattr(np, name), *arguments)
        if _watched(backend, name, tuple(np.ones_like(a) for a in arguments)):
            continue
        found = as_numpy(_step, backend, name, arguments)
        if isinstance(found, Exception):
            continue  # NumPy is asked then, and settles it
        if isinstance(expected, Exception):
            wrong.append(f"{text}: NumPy raises {expected}, nothing is declared")
            continue
        difference = compare(np.asarray(expected), found, ELEMENTWISE)
        if difference:
            wrong.append(f"{text}: {difference}")
    assert not wrong, "\n".join(wrong)


def _watched(backend: Any, name: str, arguments: tuple[Any, ...]) -> str:
    """Return what an operation is declared or refused for, seen on harmless values."""

    def function(*values: Any) -> Any:
        return getattr(gf.namespace(values[0]), name)(*values)

    return try_on(backend, function, *arguments)


def _step(backend: Any, name: str, arguments: Any) -> Any:
    with backend.scope():
        there = [backend.put(a, share=True) for a in arguments]
        function = backend.program(lambda *v: getattr(backend.namespace(), name)(*v))
        made = function(*there)
        backend.wait(made)
    return np.asarray(backend.get(made) if backend.is_array(made) else made)


OUT_OF_REACH: dict[str, Callable[[Any, Any], Any]] = {
    "an index array": lambda x, i: x[i],
    "take": lambda x, i: gf.namespace(x).take(x, i),
    "an index and a slice": lambda x, i: x[i][::2],
}


@pytest.mark.parametrize("name", OUT_OF_REACH)
def test_an_index_out_of_range_raises_or_is_declared(name: str, backend: Any) -> None:
    x, inside, outside = np.arange(6.0, dtype=np.float32), np.array([0, 5]), np.array([0, 9])
    if try_on(backend, OUT_OF_REACH[name], x, inside):
        return
    with pytest.raises((IndexError, RuntimeError)), backend.scope():
        made = OUT_OF_REACH[name](backend.put(x, share=True), backend.put(outside, share=True))
        backend.wait(made)


@pytest.mark.parametrize("name", ["torch", "mlx", "dpnp", "cupy", "opencl", "jax"])
def test_what_is_not_exact_is_declared_as_data_with_a_reason(name: str) -> None:
    from gpuforge.runtime.backends import load

    module = load(name)
    declared = module.DEVIATIONS
    assert declared and all(len(reason) > 20 for reason in declared.values())


class TestErrors:
    def test_the_users_own_exception_is_the_users(self, backend: Any) -> None:
        class Own(Exception):
            pass

        def function(x: Any) -> Any:
            raise Own("mine")

        with pytest.raises(Own) as caught, backend.scope():
            function(backend.put(BASE, share=True))
        assert raised_by_user(caught.value, backend)

    def test_an_exception_inside_the_library_is_not_the_users(self, backend: Any) -> None:
        if backend.name == "numpy" or backend.compiles:
            pytest.skip("NumPy is the reference; a compiled program raises while it is traced")

        def function(x: Any, y: Any) -> Any:
            return x @ y

        try:
            with backend.scope():
                left = backend.put(BASE, share=True)
                made = function(left, backend.put(BASE, share=True))
                backend.wait(made)
        except Exception as error:
            assert not raised_by_user(error, backend)
            assert not backend.exhausted(error)
        else:
            pytest.fail("shapes (4, 6) and (4, 6) were multiplied")

    def test_a_write_to_an_argument_is_seen(self, backend: Any) -> None:
        def function(x: Any) -> Any:
            y = x + 0
            x[0] = 1
            return y

        leaves: list[Any] = []
        spec = flatten(((BASE,), {}), leaves)
        program = Program(backend, function, spec, copies=False)
        template = describe(BASE + 0, (BASE,))
        assert not isinstance(template, str)
        outcome = try_backend(program, (BASE,), template, BASE + 0, floor=1.0, exact=True)
        assert outcome.refused


EXHAUSTION = """
import resource, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
from gpuforge.runtime.opening import open_library
backend = open_library({name!r}).devices[0]
small = np.ones(2**20, np.float32)
def run(x):
    with backend.scope():
        made = backend.program(lambda v: v * 2 + 1)(backend.put(x, share=True))
        backend.wait(made)
    return backend.get(made)
run(small)
large = np.ones(2**28, np.float32)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, used + 2**28))
trouble = None
try:
    run(large)
except BaseException as error:
    trouble = error.with_traceback(None)
assert trouble is not None, "nothing ran out"
assert backend.exhausted(trouble), repr(trouble)
del trouble
backend.release()
assert float(run(small)[0]) == 3.0
print("recognised")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="RLIMIT_AS is Linux's")
def test_memory_that_runs_out_is_recognised_or_declared_to_end_the_process(
    backend: Any, library_of: str
) -> None:
    """1 GiB is asked of 256 MiB that are left, in a process of its own."""
    if backend.name.startswith("null"):
        pytest.skip("the null device has no memory of its own")
    if ":cpu" not in backend.name and backend.name != "numpy":
        pytest.skip("a limit on address space does not bound a device's memory")
    done = subprocess.run(
        [sys.executable, "-c", EXHAUSTION.format(name=library_of)],
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    deaths = (-signal.SIGSEGV, -signal.SIGABRT)
    if backend.dies_when_short:
        assert done.returncode in deaths or done.stdout == "recognised\n", done.stderr[-2000:]
    else:
        assert done.stdout == "recognised\n", (done.returncode, done.stderr[-2000:])


HUGE = """
import resource, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
import gpuforge as gf
from gpuforge.errors import GpuForgeError
name = {name!r}
def spread(x, y):
    apart = x[:, None] - y[None, :]
    return gf.namespace(x).sum(apart * apart, axis=1)
small, large = (np.linspace(0, 1, n, dtype=np.float32) for n in (64, 40_000))
with gf.session(history=False) as session:
    placed = gf.offload(backend=name, fallback=True)(spread)
    for _ in range(3):
        placed(small, small)
    device = session.find(name)
    assert placed.stats().counts[device.name].calls == 2, placed.stats().counts
    if ":cpu" in device.name or name == "numpy":
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 2**30, used + 2**30))
        taken = None
    elif name.startswith("torch"):
        free = device.torch.cuda.mem_get_info()[0]
        taken = device.torch.empty(free - 2**30, dtype=device.torch.uint8, device=device.device)
    else:
        free = device.cupy.cuda.runtime.memGetInfo()[0]
        taken = device.cupy.empty(free - 2**30, np.uint8)
    try:
        found = placed(large, large)
        outcome = "result"
        some = ((large[:3, None].astype(float) - large) ** 2).sum(axis=1)
        np.testing.assert_allclose(found[:3], some, rtol=1e-3)
    except (MemoryError, GpuForgeError):
        outcome = "clear error"
    del taken
    device.release()
    again = gf.offload(backend=name)(lambda x: x * 2 + 1)
    for _ in range(3):
        assert again(small)[0] == 1
    assert again.stats().counts[device.name].calls >= 2, again.stats().counts
print(outcome)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="RLIMIT_AS is Linux's")
def test_a_huge_request_ends_in_a_result_or_a_clear_error(backend: Any, library_of: str) -> None:
    """6 GB in the middle of a call whose arguments take 160 KB, with 1 GiB left."""
    if library_of in ("numpy", "null"):
        pytest.skip("the reference itself, or no memory of its own")
    if backend.dies_when_short:  # decision 12: only who names it runs that risk
        with gf.session(history=False) as session:
            assert not session.usable(backend)
        return
    if ":cpu" not in backend.name and library_of not in ("torch", "cupy"):
        pytest.skip("no way here to take the memory of its device")
    done = subprocess.run(
        [sys.executable, "-c", HUGE.format(name=":".join(backend.name.split(":")[:2]))],
        capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.stdout in ("result\n", "clear error\n"), (done.returncode, done.stderr[-2000:])


JAX_DEVICES = """
import numpy as np
from gpuforge.runtime.opening import open_library
for backend in open_library("jax").devices:
    with backend.scope():
        made = backend.program(lambda x: (x + 1,))(backend.put(np.ones(4), share=True))[0]
    print(backend.name, made.devices() == {backend.device})
"""


def test_jax_computes_where_its_backend_says_though_another_device_is_its_default() -> None:
    pytest.importorskip("jax", reason="jax is not installed")
    done = subprocess.run(
        [sys.executable, "-c", JAX_DEVICES], capture_output=True, text=True, timeout=100,
        env=os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"},
    )  # fmt: skip
    assert done.stdout == "jax:cpu True\njax:cpu:1 True\n", done.stderr[-2000:]


class TestManners:
    def test_threads_compute_at_the_same_time(self, backend: Any) -> None:
        wrong: list[Any] = []

        def work(number: int) -> None:
            x = np.full((16, 16), number, np.float32)
            try:
                for _ in range(20):
                    with backend.scope():
                        function = backend.program(lambda v: v * 2 + 1)
                        made = function(backend.put(x, share=True))
                        backend.wait(made)
                    if not np.array_equal(backend.get(made), x * 2 + 1):
                        wrong.append(number)
            except Exception as error:
                wrong.append(error)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong

    def test_release_may_be_asked_at_any_time(self, backend: Any) -> None:
        with backend.scope():
            there = backend.put(BASE, share=False)
            backend.release()
        back = backend.get(there) if backend.is_array(there) else np.asarray(there)
        assert np.array_equal(back, BASE)

    def test_its_name_says_library_and_device(self, backend: Any) -> None:
        parts = backend.name.split(":")
        assert backend.name == "numpy" or len(parts) in (2, 3)
        assert backend.version


GLOBAL_STATE = """
import os, sys, warnings, locale, signal
import numpy as np
from gpuforge.runtime.contention import prepare_environment
prepare_environment()
def state():
    import random
    return (dict(os.environ), np.geterr(), np.get_printoptions(), list(warnings.filters),
            locale.setlocale(locale.LC_ALL), os.getcwd(), sys.getrecursionlimit(),
            [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)],
            random.getstate(), np.random.get_state()[1].tolist(), sys.stdout, sys.excepthook)
{library}
before = state()
from gpuforge.runtime.opening import open_library
backend = open_library({name!r}).devices[0]
x = np.ones(9, np.float32)
with backend.scope():
    made = backend.program(lambda v: v * 2)(backend.put(x, share=True))
    backend.wait(made)
backend.get(made)
after = state()
changed = [(b, a) for b, a in zip(before, after) if b != a]
assert not changed, changed
if {name!r} == "jax":
    import jax
    assert not jax.config.jax_enable_x64
if {name!r} == "torch":
    import torch
    assert torch.get_default_dtype() is torch.float32
"""
IMPORTS = {
    "jax": "import jax; jax.devices()",
    "torch": "import torch",
    "mlx": "import mlx.core",
    "dpnp": "",
    "opencl": "import pyopencl, pyopencl.array",
}


def test_using_it_changes_no_global_state_beyond_the_librarys_import(
    backend: Any, library_of: str
) -> None:
    if library_of == "null":
        pytest.skip("the null device is this process")
    code = GLOBAL_STATE.format(name=library_of, library=IMPORTS.get(library_of, ""))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-3000:]
