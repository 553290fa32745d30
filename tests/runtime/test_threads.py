"""Threads of several libraries: NumPy's workers are tamed, whichever library was loaded first.

Everything that a library reads when it loads, or that could hang, runs in a process of its own.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

import gpuforge as gf
from gpuforge.runtime.evaluation.background import Background
from gpuforge.runtime.execution import summary
from gpuforge.runtime.threads import contention, openblas, symbols

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
OWN = [copy for copy in openblas.copies() if copy.is_numpys]
OPENBLAS = pytest.mark.skipif(not OWN, reason="NumPy has no OpenBLAS of its own")

HEAD = """
import os, sys, threading
from gpuforge.runtime.threads import contention

contention.prepare_environment()
import numpy as np
from gpuforge.runtime.threads import openblas
from gpuforge.runtime.evaluation.opening import open_library

copies = openblas.copies

def own():
    return next(copy for copy in copies() if copy.is_numpys)

def timeout(copy=None):
    return (copy or own()).internal["openblas_thread_timeout"]()

rng = np.random.default_rng(0)
SMALL, LARGE = (rng.random((n, n)) for n in (130, 400))

def products():
    return [(x @ x).tobytes() for x in (SMALL, LARGE)] + [np.linalg.solve(LARGE, SMALL[0, 0] +
            LARGE[:, :3]).tobytes()]
"""


def run(code: str, first: str = "numpy", **variables: str) -> list[str]:
    """Return the lines that a program prints which imports `first` and goes on with `HEAD`."""
    base = {k: v for k, v in os.environ.items() if not k.startswith(("GOMP", "OMP", "OPENBLAS"))}
    done = subprocess.run(
        [sys.executable, "-c", f"import {first}\n{HEAD}\n{textwrap.dedent(code)}"],
        capture_output=True, text=True, timeout=300, check=False, env={**base, **variables},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


class TestEnvironment:
    def test_a_variable_is_set_only_where_unset(self) -> None:
        code = "print(sorted(contention.state.set_variables), os.environ.get(contention.VARIABLE))"
        assert run(code, "gpuforge.runtime") == ["['OPENBLAS_THREAD_TIMEOUT'] 14"]
        assert run(code, OPENBLAS_NUM_THREADS="1") == ["[] None"]
        assert run(code, GPUFORGE_TAME_THREADS="0") == ["[] None"]
        assert run(code, OPENBLAS_THREAD_TIMEOUT="7") == ["[] 7"]

    def test_numpy_loaded_first_is_remembered_and_left_alone(self) -> None:
        code = "print(contention.state.too_late, contention.state.restarted, timeout())"
        assert run(code) == ["['numpy'] [] 0"]


@OPENBLAS
class TestTaming:
    @pytest.mark.parametrize("first", ["numpy", "gpuforge.runtime"])
    def test_opening_a_library_tames_numpys_workers(self, torch: Any, first: str) -> None:
        code = """
            before, threads = products(), own().threads
            open_library("torch")
            assert products() == before and own().threads == threads
            state = contention.state
            print(timeout(), state.restarted, state.too_late, repr(state.reason))
        """
        restarted = "['numpy']" if first == "numpy" else "[]"
        assert run(code, first) == [f"14 {restarted} [] ''"]

    @LINUX
    @pytest.mark.skipif(contention.allowed_cores() < 2, reason="one core has no worker")
    def test_tamed_workers_go_to_sleep_between_calls(self) -> None:
        """Counted: how often the workers gave up their core of their own accord."""
        code = """
            def slept():
                total = 0
                for task in os.listdir("/proc/self/task"):
                    if int(task) != os.getpid():
                        lines = open(f"/proc/self/task/{task}/status").read().splitlines()
                        total += sum(int(l.split()[1]) for l in lines if l.startswith("volun"))
                return total

            def between_calls():
                before = slept()
                for _ in range(30):
                    LARGE @ LARGE
                    sum(range(100_000))
                return slept() - before

            LARGE @ LARGE
            spinning = between_calls()
            contention.tame("torch")
            LARGE @ LARGE
            print(spinning, between_calls())
        """
        spinning, tamed = map(int, run(code)[0].split())
        assert tamed >= 15 > spinning

    def test_it_is_off_where_the_user_chose(self, torch: Any) -> None:
        code = 'open_library("torch"); print(timeout(), contention.state.restarted)'
        assert run(code, GPUFORGE_TAME_THREADS="0") == ["0 []"]
        assert run(code, OPENBLAS_THREAD_TIMEOUT="20") == ["20 []"]
        assert run(code, OMP_NUM_THREADS="1") == ["0 []"]

    def test_it_waits_until_no_other_thread_runs(self) -> None:
        code = """
            end = threading.Event()
            thread = threading.Thread(target=end.wait)
            thread.start()
            contention.tame("torch")
            state = contention.state
            print(timeout(), state.restarted, state.too_late, state.reason)
            end.set()
            thread.join()
            contention.tame("cupy")
            print(timeout())
            contention.tame("jax")
            print(timeout(), state.restarted, state.too_late, repr(state.reason))
        """
        reason = "other threads were running, and might have been using BLAS"
        assert run(code) == [f"0 [] ['numpy'] {reason}", "0", "14 ['numpy'] [] ''"]

    def test_only_numpys_own_copy_is_restarted(self) -> None:
        pytest.importorskip("scipy.linalg")
        code = """
            import scipy.linalg
            both = lambda: (products(), scipy.linalg.lu(LARGE)[1].tobytes())
            before, threads = both(), [c.threads for c in copies()]
            contention.tame("torch")
            assert both() == before and [c.threads for c in copies()] == threads
            print(sorted(map(timeout, copies())))
        """
        assert run(code, "scipy.linalg") in (["[0, 14]"], ["[14]"])  # or SciPy has no copy

    def test_what_cannot_be_done_is_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(openblas, "FUNCTIONS", (*openblas.FUNCTIONS, "openblas_none"))
            assert openblas.calm(14).reason == "this OpenBLAS has no openblas_none"
        monkeypatch.setattr(openblas.Copy, "is_numpys", False)
        assert "other libraries" in openblas.calm(15).reason  # no time-out that any copy has
        monkeypatch.setattr(openblas, "copies", list)  # as with MKL or Accelerate
        assert openblas.calm(15) == openblas.Outcome()


@OPENBLAS
def test_nothing_is_restarted_without_an_interpreter_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    assert openblas.calm(15).reason.startswith("this Python has no lock")  # nothing runs with 15


@LINUX
@OPENBLAS
class TestSymbols:
    """Functions that a library has but does not export are found by its symbol table."""

    EXPORTED = "openblas_get_num_threads"

    def find(self, path: Path) -> dict[str, int]:
        known = OWN[0]._named(self.EXPORTED)
        there = ctypes.cast(known, ctypes.c_void_p).value
        assert there
        return symbols.addresses(path, openblas.FUNCTIONS, known.__name__, there)

    def test_they_are_the_exported_ones_where_these_exist(self) -> None:
        found = self.find(OWN[0].path)
        assert set(found) == set(openblas.FUNCTIONS)
        for name in openblas.FUNCTIONS:
            if hasattr(OWN[0].library, name):
                exported = ctypes.cast(getattr(OWN[0].library, name), ctypes.c_void_p)
                assert found[name] == exported.value

    def test_a_hidden_function_is_called_like_an_exported_one(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        name = "openblas_thread_timeout"
        hidden = openblas.Copy(OWN[0].path)
        monkeypatch.setattr(openblas, "hasattr", lambda *_: False, raising=False)
        assert hidden.internal[name]() == OWN[0].internal[name]()

    def test_code_that_differs_from_the_loaded_code_is_not_called(self, tmp_path: Path) -> None:
        content = bytearray(OWN[0].path.read_bytes())
        start = self.find(OWN[0].path)["openblas_read_env"]
        code = ctypes.string_at(start, 64)
        assert content.count(code) == 1
        content[content.index(code) + 8] ^= 1
        other = tmp_path / "other.so"
        other.write_bytes(content)
        assert set(self.find(other)) == {*openblas.FUNCTIONS} - {"openblas_read_env"}

    def test_a_damaged_file_is_told(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        content = OWN[0].path.read_bytes()
        monkeypatch.setattr(openblas, "FUNCTIONS", (*openblas.FUNCTIONS, "openblas_none"))
        monkeypatch.setattr(openblas.Copy, "is_numpys", True)
        reasons = []
        for name, part in {"gone": None, "short": content[:30], "cut": content[: 1 << 16]}.items():
            copy = openblas.Copy(OWN[0].path)
            copy.path = tmp_path / name
            if part is not None:
                copy.path.write_bytes(part)
            monkeypatch.setattr(openblas, "copies", lambda copy=copy: [copy])
            reasons.append(openblas.calm(15).reason)
        assert "No such file" in reasons[0] and "unpack" in reasons[1]
        assert reasons[2].startswith("this OpenBLAS has no ")
        assert reasons[2].endswith(" no openblas_none")  # the others may be exported

    @pytest.mark.parametrize("content", [b"", b"\x7fELF\x01\x01", b"no library"])
    def test_nothing_is_found_in_another_kind_of_file(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "other.so"
        path.write_bytes(content)
        assert self.find(path) == {}


@OPENBLAS
class TestSafety:
    def test_restarts_between_calls_change_no_result(self) -> None:
        code = """
            before = products()
            for turn in range(150):
                os.environ[contention.VARIABLE] = value = str(8 + turn % 16)
                assert openblas.calm(int(value)).restarted
                assert timeout() == int(value)
                assert products() == before
            print("same")
        """
        assert run(code) == ["same"]

    def test_threads_that_start_afterwards_compute_the_same(self) -> None:
        """The first calls after a restart come from several threads at once."""
        code = """
            before = products()
            for turn in range(25):
                os.environ[contention.VARIABLE] = value = str(8 + turn % 16)
                assert openblas.calm(int(value)).restarted
                found, ready = [], threading.Barrier(4)
                work = lambda: (ready.wait(), found.append(products()))
                threads = [threading.Thread(target=work) for _ in range(4)]
                for each in threads: each.start()
                for each in threads: each.join()
                assert found == [before] * 4
            print("same")
        """
        assert run(code) == ["same"]

    def test_nothing_is_restarted_under_a_running_call(self) -> None:
        code = """
            before, wrong, end = products(), [], threading.Event()
            def work():
                while not end.is_set():
                    if products() != before: wrong.append(1)
            threads = [threading.Thread(target=work) for _ in range(3)]
            for each in threads: each.start()
            outcomes = {openblas.calm(14) for _ in range(100)}
            end.set()
            for each in threads: each.join()
            print(len(outcomes), *(o.restarted for o in outcomes), len(wrong), timeout())
        """
        assert run(code) == ["1 False 0 0"]

    @FORKS
    def test_forked_children_compute_the_same(self) -> None:
        code = """
            before = products()
            contention.tame("torch")
            for turn in range(20):
                child = os.fork()
                if child == 0:
                    os._exit(0 if products() == before and timeout() == 14 else 1)
                assert products() == before
                assert os.waitpid(child, 0)[1] == 0
            print("same", timeout())
        """
        assert run(code) == ["same 14"]


class TestBlasLimit:
    def test_calls_that_overlap_share_one_limit(self) -> None:
        first, second = contention.BlasLimit(), contention.BlasLimit()
        copies = first._find()
        entered, leave = threading.Event(), threading.Event()

        def overlap() -> None:
            with second.one_thread():
                entered.set()
                leave.wait()

        before = [copy.threads for copy in copies]
        thread = threading.Thread(target=overlap)
        with first.one_thread():
            thread.start()
            entered.wait()
        assert all(copy.threads == 1 for copy in copies)
        leave.set()
        thread.join()
        assert [copy.threads for copy in copies] == before

    def test_many_overlapping_threads_give_the_number_back(self) -> None:
        code = """
            limit, before = contention.BlasLimit(), [c.threads for c in copies()]
            def work():
                for _ in range(2000):
                    with limit.one_thread():
                        SMALL[:8] @ SMALL[:, :8]
            threads = [threading.Thread(target=work) for _ in range(8)]
            for each in threads: each.start()
            for each in threads: each.join()
            assert [c.threads for c in copies()] == before
            print(contention.state.limited_calls)
        """
        assert run(code) == ["16000"]

    def test_work_beside_the_program_leaves_it_one_thread(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        limit = contention.BlasLimit()
        copies, seen = limit._find(), []
        before = [copy.threads for copy in copies]
        for cores, expected in ((2, [1] * len(copies)), (64, before)):
            monkeypatch.setattr(contention, "allowed_cores", lambda cores=cores: cores)
            background = Background(contention.BlasLimit().leave_a_core)
            assert background.start(lambda: seen.append([copy.threads for copy in copies]))
            background.wait()
            assert seen.pop() == expected
        assert [copy.threads for copy in copies] == before

    @pytest.mark.parametrize("deterministic", [False, True])
    def test_deterministic_mode_keeps_all_threads(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, deterministic: bool
    ) -> None:
        monkeypatch.setattr(contention, "allowed_cores", lambda: 2)
        copies, seen = contention.BlasLimit()._find(), []
        before = [copy.threads for copy in copies]
        plan = str(tmp_path / "a.plan")
        with gf.session(history=False, deterministic=deterministic, plan=plan) as held:
            assert held.background.start(lambda: seen.append([copy.threads for copy in copies]))
            held.background.wait()
        assert seen == [before if deterministic else [1] * len(copies)]

    def test_a_number_that_the_program_chose_meanwhile_stays(self) -> None:
        code = """
            before = own().threads
            with contention.BlasLimit().one_thread():
                own().threads = 2
            print(own().threads == 2, before)
        """
        assert run(code, OPENBLAS_NUM_THREADS="4")[0].startswith("True")

    @FORKS
    def test_a_child_forked_inside_has_the_number_back(self) -> None:
        code = """
            import gpuforge.runtime.session
            before = own().threads
            with contention.BlasLimit().one_thread():
                child = os.fork()
                if child == 0:
                    os._exit(own().threads)
                inside = own().threads
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == before, inside,
                  own().threads == before)
        """
        assert run(code) == ["True 1 True"]


def test_the_summary_says_what_was_done(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def notes(**found: Any) -> str:
        monkeypatch.setattr(contention, "state", contention.Threads(**found))
        return "\n".join(summary.collect().notes)

    with gf.session(history=False) as held:
        spinning = {"too_late": ["numpy"], "reason": "other threads were running"}
        assert "other threads" not in notes(**spinning)  # no other library is open yet
        held.find("torch")
        assert "restarted the BLAS threads of numpy" in notes(restarted=["numpy"])
        text = notes(**spinning, limited_calls=3)
    assert "take cores from other backends: other threads were running" in text
    assert "3 short NumPy calls ran with one BLAS thread" in text


@FORKS
class TestForkWarning:
    PROGRAM = """
        import warnings
        {imports}
        assert open_library("jax").devices
        {later}
        def filters():
            return list(warnings.filters)
        before = filters()
        for _ in range(3):
            child = os.fork()
            if child == 0:
                os._exit(0 if filters() == before and (SMALL @ SMALL).any() else 1)
            assert os.waitpid(child, 0)[1] == 0
        assert filters() == before
        """

    def warned(self, imports: str = "", later: str = "", option: str = "default") -> bool:
        """Return whether JAX's warning appeared, shown or as an exception."""
        code = textwrap.dedent(self.PROGRAM).format(imports=imports, later=later)
        done = subprocess.run(
            [sys.executable, "-W", option, "-c", HEAD + code],
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return "JAX is multithreaded" in done.stderr

    @pytest.mark.parametrize("option", ["default", "error::RuntimeWarning"])
    def test_a_program_without_jax_gets_no_warning(self, option: str) -> None:
        pytest.importorskip("jax")
        assert not self.warned(option=option)

    def test_a_program_with_jax_gets_it_as_before(self) -> None:
        pytest.importorskip("jax")
        assert self.warned(imports="import jax")
        assert self.warned(later="import jax.numpy as jnp")
        assert self.warned(later="from jax import jit")
        module = "new = type(sys)('new'); sys.modules['new'] = new; "
        assert self.warned(later=module + "exec('import jax', vars(new)); del new")
