"""What opening a library changes in the process while it goes on."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from weakref import ref

import pytest

import gpuforge as gf
from gpuforge.runtime.evaluation import opening
from gpuforge.runtime.evaluation.opening import seldom_collected
from gpuforge.runtime.startup.opening import COMPILE_SECONDS


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10)
    yield
    gc.set_threshold(*before)


def test_garbage_is_looked_for_less_often_meanwhile() -> None:
    with seldom_collected():
        assert gc.get_threshold()[0] > 10_000
        assert gc.isenabled()
    assert gc.get_threshold()[:2] == (700, 10)


def test_that_ends_with_a_failure_too() -> None:
    with pytest.raises(ImportError), seldom_collected():
        raise ImportError
    assert gc.get_threshold()[:2] == (700, 10)


@pytest.mark.parametrize("mine", [(0, 10), (10**6, 10)])
def test_a_program_that_looks_less_often_itself_is_left_alone(mine: tuple[int, int]) -> None:
    gc.set_threshold(*mine)
    with seldom_collected():
        assert gc.get_threshold()[:2] == mine
    assert gc.get_threshold()[:2] == mine


def test_what_the_program_sets_meanwhile_stays() -> None:
    with seldom_collected():
        gc.set_threshold(5_000, 5)
    assert gc.get_threshold()[:2] == (5_000, 5)


def test_two_at_a_time_leave_what_was_before() -> None:
    first, second = seldom_collected(), seldom_collected()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert gc.get_threshold()[:2] == (700, 10)


def test_what_was_made_meanwhile_is_not_looked_through_next() -> None:
    gc.collect()
    with seldom_collected():
        kept = [[n] for n in range(20_000)]
    assert gc.get_freeze_count() < 1_000  # 375 when Python 3.12 starts
    assert len(gc.get_objects(generation=0)) < len(kept) / 10


def test_garbage_that_was_made_meanwhile_is_found_in_the_end() -> None:
    class Held:
        pass

    with seldom_collected():
        one = Held()
        one.itself = one  # type: ignore[attr-defined]
        gone = ref(one)
        del one
    gc.collect()
    assert gone() is None


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the JAX devices for which a program was compiled."""
    jax = pytest.importorskip("gpuforge.runtime.backends.jax")
    pytest.importorskip("jax")
    found: list[str] = []
    plain = jax.JaxBackend.program

    def counted(self: Any, function: Any, given: Any) -> Any:
        found.append(self.name)
        return plain(self, function, given)

    monkeypatch.setattr(jax.JaxBackend, "program", counted)
    return found


def opened_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(opening, "_tested", {})
    with gf.session(cache_folder=str(folder)) as held:
        found = held.find("jax")
    assert found.floor_seconds > 0
    return found


def test_the_program_of_the_first_result_is_compiled_once(
    tmp_path: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = opened_anew(tmp_path, monkeypatch)
    assert compiled.count(first.name) == 1
    second = opened_anew(tmp_path, monkeypatch)
    assert second is not first and compiled.count(first.name) == 1
    assert second.compile_seconds == first.compile_seconds > 0


def test_what_compiling_takes_is_expected_where_no_process_told(
    tmp_path: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = opened_anew(tmp_path, monkeypatch)
    for kept in tmp_path.glob("history*"):
        kept.unlink()
    assert opened_anew(tmp_path, monkeypatch).compile_seconds == COMPILE_SECONDS
    assert compiled.count(first.name) == 1


@pytest.mark.parametrize("problem", ["wrong", "raises"])
def test_a_stored_program_that_does_not_work_is_compiled_again(
    problem: str, tmp_path: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = opened_anew(tmp_path, monkeypatch)
    jax = import_module("gpuforge.runtime.backends.jax")
    plain = jax.JaxBackend.restored

    def broken(self: Any, data: bytes) -> Any:
        run = plain(self, data)

        def call(*given: Any) -> Any:
            if problem == "raises":
                raise RuntimeError("it cannot run here")
            return [run(*given)[0][0] + 1], [], []

        return call

    monkeypatch.setattr(jax.JaxBackend, "restored", broken)
    assert opened_anew(tmp_path, monkeypatch).compile_seconds > 0
    assert compiled.count(first.name) == 2
