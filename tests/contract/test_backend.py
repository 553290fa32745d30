"""One contract for every backend: arrays go there and back unchanged, answers are NumPy's, what it
does not do has a reason, memory that runs out is recognised, threads and settings are left alone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import warnings
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from hypothesis.extra.array_api import make_strategies_namespace

import gpuforge as gf
from gpuforge.runtime.array.graph import REPEAT
from gpuforge.runtime.array.table import OPERATIONS
from gpuforge.runtime.backends.numpy import NumpyBackend
from gpuforge.runtime.evaluation.engine import BackendEngine, Outcome, Programs
from gpuforge.runtime.evaluation.recording import record

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
    "empty": np.empty((0, 3), np.float32),
    "empty inside": np.empty((2, 0, 3), np.float32),
    "0-d": np.array(2.5, np.float32),
    "one": np.ones((1, 1, 1), np.float32),
    "unaligned": np.frombuffer(b"\0" + BASE.tobytes(), "u1")[1:].view(np.float32),
}


def run_on(backend: Any, function: Any, *arrays: Any) -> tuple[Any, Outcome]:
    """Return what a recorded call gives on a backend, and what was settled by NumPy."""
    engine = BackendEngine(backend, NumpyBackend(), Programs())
    return record(function, arrays, {}, engine).result, engine.outcome


def there_and_back(backend: Any, array: np.ndarray[Any, Any]) -> Any:
    with backend.scope():
        there = backend.put(array)
        backend.wait(there)
        return np.array(backend.get(there))


def round_trip(backend: Any, array: np.ndarray[Any, Any]) -> None:
    if array.dtype.char not in backend.lowering.dtypes:
        return
    before = array.copy()
    back = there_and_back(backend, array)
    assert back.shape == array.shape
    assert back.dtype == array.dtype.newbyteorder("=")
    assert np.array_equal(back, before, equal_nan=before.dtype.kind in "fc")
    if before.dtype.kind == "f":
        assert np.array_equal(np.signbit(back), np.signbit(before))
    assert array.tobytes() == before.tobytes()


class TestArrays:
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_every_dtype_of_the_lowering_comes_back_as_it_went(
        self, dtype: str, backend: Any
    ) -> None:
        round_trip(backend, np.array([[0, 1, 2], [3, 100, 7]]).astype(dtype))

    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_every_layout_comes_back(self, layout: str, backend: Any) -> None:
        round_trip(backend, LAYOUTS[layout])
        read_only = LAYOUTS[layout].view()
        read_only.flags.writeable = False
        round_trip(backend, read_only)

    @FEW
    @given(data=st.data())
    def test_any_shape_and_value_comes_back(self, data: Any, backend: Any) -> None:
        dtype = data.draw(st.sampled_from(DTYPES).map(np.dtype))
        shape = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
        round_trip(backend, data.draw(arrays.arrays(dtype, shape)))

    def test_a_result_is_independent_of_the_users_array(self, backend: Any) -> None:
        data = BASE.copy()
        found, _ = run_on(backend, lambda x: x + 0, data)
        data[...] = -1
        assert np.array_equal(found, BASE)


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
            placed = gf.offload(backend=library_of, fallback=True, isolate=False)(function)
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
            lambda x, y: np.exp(-x) / y,
            lambda x, y: np.sum(x * y),
        ):
            found, outcome = run_on(backend, function, a, b)
            np.testing.assert_allclose(found, function(a, b), rtol=1e-5)
            assert (outcome.settled, outcome.refused, outcome.programs) == ("", "", 1)

    @FEW
    @given(data=st.data())
    def test_an_expression_over_any_values_is_numpys(self, data: Any, backend: Any) -> None:
        xps = make_strategies_namespace(np, api_version="2023.12")
        dtype = data.draw(st.sampled_from([np.float32, np.float64]))
        shape = data.draw(xps.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=6))
        values = xps.arrays(dtype, shape, elements={"allow_subnormal": False})
        x, y = data.draw(values), data.draw(values)
        with np.errstate(all="ignore"):
            expected = expression(np, x, y)
            found, outcome = run_on(backend, lambda p, q: expression(np, p, q), x, y)
        assert not outcome.refused
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=tiny(x, y))


def tiny(x: Any, y: Any) -> float:
    """Return how far a fused multiply-add may be off where terms cancel."""
    with np.errstate(all="ignore"):
        terms = np.abs(np.concatenate([(x * y).ravel(), y.ravel(), x.ravel()]))
    return float(np.max(terms, where=np.isfinite(terms), initial=0.0)) * 1e-6


def test_what_is_not_done_there_has_a_reason(backend: Any) -> None:
    lowering, chars = backend.lowering, "?bBhHiIlLefdFD"
    reasons = [lowering.refusal(row, np.dtype(c)) for row in OPERATIONS.values() for c in chars]
    assert all(len(reason) > 10 for reason in reasons if reason)
    assert set(lowering.functions) <= {*OPERATIONS, REPEAT.name}
    for named in (lowering.guards, lowering.result_guards, lowering.refused, lowering.reusing):
        assert set(named) <= set(OPERATIONS)
    assert lowering.views <= set(lowering.functions)


def test_with_exact_numerics_nothing_that_has_a_guard_runs_there(backend: Any) -> None:
    lowering = backend.lowering
    for name in {*lowering.guards, *lowering.result_guards} & set(lowering.functions):
        assert lowering.refusal(OPERATIONS[name], np.dtype("f"), exact=True)


class TestErrors:
    def test_the_users_own_exception_is_the_users(self, backend: Any) -> None:
        class Own(Exception):
            pass

        def function(x: Any) -> Any:
            x *= 2
            raise Own("mine")

        given = BASE.copy()
        with pytest.raises(Own):
            run_on(backend, function, given)
        assert np.array_equal(given, BASE * 2)

    def test_what_a_library_raises_is_settled_by_numpy(self, backend: Any) -> None:
        def fail(*given: Any) -> Any:
            raise RuntimeError("as an example")

        if backend.name == "numpy":
            pytest.skip("NumPy is the reference")
        failing = copy(backend)
        functions = {**backend.lowering.functions, "add": fail}
        failing.lowering = replace(backend.lowering, functions=functions)
        found, outcome = run_on(failing, lambda x: x + 1, BASE)
        assert np.array_equal(found, BASE + 1)
        assert "as an example" in outcome.refused
        assert not backend.exhausted(RuntimeError("as an example"))


EXHAUSTION = """
import resource, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
from gpuforge.runtime.backends.numpy import NumpyBackend
from gpuforge.runtime.evaluation.engine import BackendEngine, Programs
from gpuforge.runtime.evaluation.opening import open_library
from gpuforge.runtime.evaluation.recording import record
backend = open_library({name!r}).devices[0]
programs = Programs()
small = np.ones(2**20, np.float32)
def run(x):
    global outcome
    engine = BackendEngine(backend, NumpyBackend(), programs)
    outcome = engine.outcome
    return record(lambda v: v * 2 + 1, (x,), {{}}, engine).result
run(small)
assert outcome.programs == 1 and not outcome.settled, outcome
large = np.ones(2**28, np.float32)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, used + 2**28))
try:
    run(large)
except MemoryError:  # NumPy has no more either
    pass
assert outcome.exhausted or {name!r} == "numpy", outcome
assert not outcome.refused, outcome
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
other = large.copy()  # arguments that overlap in memory are called directly
with gf.session(history=False) as session:
    placed = gf.offload(backend=name, fallback=True)(spread)
    for _ in range(3):
        placed(small, small.copy())
    device = session.find(name)
    assert placed.stats().counts[device.name].calls >= 2, placed.stats().counts
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
        found = placed(large, other)
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
            assert not session.libraries.usable(backend)
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
from gpuforge.runtime.evaluation.opening import open_library
for backend in open_library("jax").devices:
    with backend.scope():
        given = backend.put(np.ones(4))
        [made], _, _ = backend.program(lambda x: ([x + 1], [], []), [given])(given)
    print(backend.name, made.devices() == {backend.device})
"""


def test_jax_computes_where_its_backend_says_though_another_device_is_its_default() -> None:
    pytest.importorskip("jax", reason="jax is not installed")
    done = subprocess.run(
        [sys.executable, "-c", JAX_DEVICES], capture_output=True, text=True, timeout=100,
        env=os.environ
        | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"},
    )  # fmt: skip
    assert done.stdout == "jax:cpu True\njax:cpu:1 True\n", done.stderr[-2000:]


class TestManners:
    def test_threads_compute_at_the_same_time(self, backend: Any) -> None:
        wrong: list[Any] = []

        def work(number: int) -> None:
            x = np.full((16, 16), number, np.float32)
            try:
                for _ in range(20):
                    found, outcome = run_on(backend, lambda v: v * 2 + 1, x)
                    if not np.array_equal(found, x * 2 + 1) or outcome.settled:
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
            there = backend.put(BASE)
            backend.release()
            assert np.array_equal(backend.get(there), BASE)

    def test_its_name_says_library_and_device(self, backend: Any) -> None:
        parts = backend.name.split(":")
        assert backend.name == "numpy" or len(parts) in (2, 3)
        assert backend.version


GLOBAL_STATE = """
import os, sys, warnings, locale, signal
import numpy as np
from gpuforge.runtime.threads.contention import prepare_environment
prepare_environment()
def state():
    import random
    return (dict(os.environ), np.geterr(), np.get_printoptions(), list(warnings.filters),
            locale.setlocale(locale.LC_ALL), os.getcwd(), sys.getrecursionlimit(),
            [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)],
            random.getstate(), np.random.get_state()[1].tolist(), sys.stdout, sys.excepthook)
{library}
before = state()
from gpuforge.runtime.evaluation.opening import open_library
backend = open_library({name!r}).devices[0]
from gpuforge.runtime.backends.numpy import NumpyBackend
from gpuforge.runtime.evaluation.engine import BackendEngine, Programs
from gpuforge.runtime.evaluation.recording import record
engine = BackendEngine(backend, NumpyBackend(), Programs())
record(lambda v: v * 2, (np.ones(9, np.float32),), {{}}, engine)
assert engine.outcome.programs == 1
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
    "cupy": "import cupy, cupyx",
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
