"""Staged copies over a device that completes copies late and out of step with the host.

The device does nothing until an event is waited for: then it does what was submitted before that
event, and no more. A chunk that is used again too early, or a copy that ends too early, leaves
wrong bytes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuforge.runtime import staging
from gpuforge.runtime.staging import TO_DEVICE, TO_HOST, Lane, Staging

CHUNK = 64


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "CHUNK_BYTES", CHUNK)
    monkeypatch.setattr(staging, "LEAST_BYTES", 2 * CHUNK)
    monkeypatch.setattr(staging, "_CHECK_BYTES", 6 * CHUNK + 13)


class Late:
    """Copies are done when an event after them is waited for; `fails_at` raises at that copy."""

    def __init__(self, fails_at: int = -1) -> None:
        self.chunks = (np.zeros(CHUNK, np.uint8), np.zeros(CHUNK, np.uint8))
        self.submitted: list[Any] = []
        self.done = 0
        self.begun = 0
        self.fails_at = fails_at

    def begin(self) -> None:
        self.begun += 1
        self._until(len(self.submitted))

    def queue(self, target: Any, source: Any) -> None:
        if len(self.submitted) == self.fails_at:
            raise RuntimeError("the copy engine is gone")
        self.submitted.append((target, source))

    def mark(self) -> int:
        return len(self.submitted)

    def lane(self) -> Lane:
        return Lane(self.chunks, self.begin, self.queue, self.mark, self.wait)

    def wait(self, event: int) -> None:
        self._until(event)

    def _until(self, count: int) -> None:
        while self.done < count:
            target, source = self.submitted[self.done]
            target[...] = source
            self.done += 1


class Eager(Late):
    """One that does each copy at once, as a device that is faster than the host."""

    def queue(self, target: Any, source: Any) -> None:
        super().queue(target, source)
        self._until(len(self.submitted))


class Careless(Late):
    """One whose events come before their copies are done."""

    def wait(self, event: int) -> None:
        self._until(event - 1)


def opened(lane: Any) -> Staging:
    made = Staging(lane.lane)
    made.refused = dict.fromkeys(made.refused, "")
    return made


def moved(lane: Any, way: str, values: Any) -> Any:
    target = np.zeros_like(values)
    host, device = (values, target) if way == TO_DEVICE else (target, values)
    assert opened(lane).copy(way, host, device)
    return target


@pytest.mark.parametrize("kind", [Late, Eager])
@pytest.mark.parametrize("way", [TO_DEVICE, TO_HOST])
@settings(max_examples=50)
@given(size=st.integers(1, 9 * CHUNK))
def test_every_byte_arrives_once_the_copy_ends(kind: Any, way: str, size: int) -> None:
    values = np.random.default_rng(size).integers(1, 256, size, dtype=np.uint8)
    lane = kind()
    assert np.array_equal(moved(lane, way, values), values)
    assert lane.begun == 1
    assert lane.done == len(lane.submitted), "a copy ended before the device was done"


@pytest.mark.parametrize("way", [TO_DEVICE, TO_HOST])
def test_an_event_that_comes_too_early_does_show_here(way: str) -> None:
    values = np.random.default_rng(0).integers(1, 256, 5 * CHUNK, dtype=np.uint8)
    assert not np.array_equal(moved(Careless(), way, values), values)


@pytest.mark.parametrize("way", [TO_DEVICE, TO_HOST])
@pytest.mark.parametrize("copy", range(5))
def test_a_copy_that_fails_waits_for_what_is_under_way_and_is_the_last(way: str, copy: int) -> None:
    values = np.ones(5 * CHUNK, np.uint8)
    lane = Late(fails_at=copy)
    made = opened(lane)
    assert not made.copy(way, values, values.copy())
    assert lane.done == len(lane.submitted) == copy
    assert made.refused[way] == "RuntimeError: the copy engine is gone"
    assert not made.takes(way, 1 << 30)


def test_a_second_copy_meanwhile_goes_plainly() -> None:
    class Inside(Late):
        def begin(self) -> None:
            values = np.ones(3 * CHUNK, np.uint8)
            second.append(made.copy(TO_DEVICE, values, values.copy()))

    second: list[bool] = []
    made = opened(Inside())
    values = np.ones(3 * CHUNK, np.uint8)
    assert made.copy(TO_DEVICE, values, values.copy())
    assert second == [False]


class Backend:
    """A device whose plain copies are NumPy's, and whose staged copies go over `lane`."""

    name = "late:gpu"

    def __init__(self, lane: Any) -> None:
        self.staging = Staging(lane)

    def put(self, array: Any) -> Any:
        return self._move(TO_DEVICE, array)

    def get(self, array: Any) -> Any:
        return self._move(TO_HOST, array)

    def _move(self, way: str, array: Any) -> Any:
        if self.staging.takes(way, array.nbytes):
            made = np.zeros_like(array)
            if self.staging.copy(way, *((array, made) if way == TO_DEVICE else (made, array))):
                return made
        return array.copy()

    def scope(self) -> Any:
        from contextlib import nullcontext

        return nullcontext()

    def wait(self, value: Any) -> None:
        pass


class TestCheck:
    def test_nothing_is_staged_before_it(self) -> None:
        backend = Backend(Late().lane)
        assert not backend.staging.takes(TO_DEVICE, 1 << 30)
        assert staging.plain_copies(backend)[0] == (
            "late:gpu: staged copies to the device: not checked"
        )

    @pytest.mark.parametrize(("gain", "reason"), [(0.5, ""), (0.9, ""), (1.0, "took 1.00 times")])
    def test_what_is_hardly_faster_than_a_plain_copy_is_not_used(
        self, gain: float, reason: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = staging._round_trip

        def timed(backend: Any, values: Any) -> tuple[Any, tuple[float, float]]:
            plain = bool(backend.staging.refused[TO_DEVICE])
            return real(backend, values)[0], (1.0, 2.0) if plain else (gain, 2 * gain)

        monkeypatch.setattr(staging, "_round_trip", timed)
        backend = Backend(Late().lane)
        staging.check(backend)
        for way in (TO_DEVICE, TO_HOST):
            assert backend.staging.takes(way, 1 << 30) == (not reason)
            assert reason in backend.staging.refused[way]
        assert len(staging.plain_copies(backend)) == (2 if reason else 0)

    def test_other_bits_bar_it(self) -> None:
        backend = Backend(Careless().lane)
        staging.check(backend)
        assert all("changed the data" in why for why in backend.staging.refused.values())

    def test_a_library_without_page_locked_memory_copies_plainly(self) -> None:
        def lane() -> Any:
            raise MemoryError("no page-locked memory")

        backend = Backend(lane)
        staging.check(backend)
        assert set(backend.staging.refused.values()) == {"MemoryError: no page-locked memory"}
        values = np.arange(500, dtype=np.uint8)
        assert np.array_equal(backend.get(backend.put(values)), values)


def test_torchs_lane_cuts_every_dtype_into_bytes() -> None:
    """The parts that need no GPU: views as bytes, and a result in the array's own dtype."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from gpuforge.runtime.backends.torch import TorchBackend

    backend = TorchBackend(torch, "cpu")
    lane = Late()
    lane.chunks = (torch.zeros(CHUNK, dtype=torch.uint8), torch.zeros(CHUNK, dtype=torch.uint8))
    copying = replace(lane.lane(), copy=lambda target, source: target.copy_(source))
    backend.staging = Staging(lambda: copying)
    backend.staging.refused = dict.fromkeys(backend.staging.refused, "")
    for dtype in ("?", "u1", "i2", "f2", "i4", "f4", "f8", "c8", "c16"):
        values = np.arange(1, 301).astype(dtype).reshape(3, 100)
        there = backend._move(TO_DEVICE, torch.from_numpy(values), "cpu")
        back = backend._move(TO_HOST, there, "cpu").numpy()
        assert lane.done == len(lane.submitted)
        assert back.dtype == values.dtype
        assert np.array_equal(back, values)
    assert lane.done >= 2 * 2
