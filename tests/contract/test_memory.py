"""What a library keeps between calls, and when it gives it back: by a null device, and for real."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpuforge as gf
from gpuforge.errors import InvalidSettings

from .conftest import LISTED, opened
from .null import NullBackend

CALLS = 400


def doubled(x: Any) -> Any:
    return x + x


@pytest.fixture
def account(null_device: tuple[Any, NullBackend]) -> Any:
    return null_device[1].account


def call_pinned(**choices: Any) -> Any:
    """Call a function that is pinned to the null device often, and return it."""
    function = gf.offload(backend="null")(doubled)
    with gf.session(history=False, **choices):
        for _ in range(CALLS):
            assert np.array_equal(function(np.ones(64)), np.full(64, 2.0))
        where = {name: count.calls for name, count in function.stats().counts.items()}
    assert sum(where.values()) == CALLS and where["null:gpu:0"] >= CALLS - 1
    return function


@pytest.mark.parametrize(
    ("strategy", "free_percent", "releases"),
    [
        ("pooled", 1, lambda n: n == 0),
        ("eager", None, lambda n: n == CALLS),
        ("lazy", None, lambda n: n == 0),
        ("lazy", 50, lambda n: n == 0),
        ("lazy", 5, lambda n: n == CALLS),
    ],
)
def test_memory_strategy(account: Any, strategy: str, free_percent: int, releases: Any) -> None:
    account.free_percent = free_percent
    call_pinned(memory_strategy=strategy)
    assert releases(account.releases), account


def test_lazy_memory_is_given_back_from_the_pressure_that_warns(account: Any) -> None:
    account.free_percent = 50
    call_pinned(strategy="lazy", pressure_warning=0.4)
    assert account.releases > 0
    with pytest.raises(InvalidSettings), gf.session(strategy="lazily"):
        pass


def test_a_call_that_fails_gives_memory_back_whatever_the_strategy(account: Any) -> None:
    account.limit_bytes = 100
    for calls in (1, 2):
        function = gf.offload(backend="null", fallback=True)(doubled)
        with gf.session(history=False):
            account.limit_bytes = 10**9
            function(np.ones(64))
            account.limit_bytes = 100
            function(np.ones(64))
        assert account.releases == calls


def test_a_device_that_cannot_give_back_costs_no_result(
    null_device: tuple[Any, NullBackend], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(null_device[1], "release", lambda: 1 / 0)
    call_pinned(strategy="eager")


def test_memory_limit_keeps_large_arguments_off_devices_with_memory_of_their_own(
    account: Any,
) -> None:
    free, pinned = gf.offload(doubled), gf.offload(backend="null")(doubled)
    small, large = np.ones(8), np.ones(4096)
    with gf.session(history=False, memory_limit="1 KiB") as held:
        held.find("null")  # opening it computes a first result there
        before = account.put_bytes
        for _ in range(50):
            free(large)
        (row,) = [row for row in free.explain(large).rows if row.backend == "null:gpu:0"]
        assert not row.candidate and "memory_limit is 1 KiB" in row.evidence
        assert account.put_bytes == before
        assert all(row.candidate for row in free.explain(small).rows)
        pinned(small)
        before = account.put_bytes
        assert np.array_equal(pinned(large), doubled(large))
        assert account.put_bytes == before
        assert "its arguments take 32 KiB; memory_limit is 1 KiB" in str(pinned.explain(large))


KEPT_BYTES = {
    "mlx": lambda device: device.mx.get_cache_memory(),
    "opencl": lambda device: device.pool.managed_bytes - device.pool.active_bytes,
    "cupy": lambda device: device.cupy.get_default_memory_pool().free_bytes(),
}


@pytest.mark.parametrize("name", KEPT_BYTES)
@pytest.mark.parametrize(
    ("strategy", "kept"), [("pooled", True), ("lazy", False), ("eager", False)]
)
def test_real_libraries_keep_memory_or_give_it_back(name: str, strategy: str, kept: bool) -> None:
    device = opened(name) if LISTED[name].found else None
    if not hasattr(device, "put"):
        pytest.skip(f"{name} is not installed or does not work here")
    device.release()
    assert KEPT_BYTES[name](device) == 0
    function = gf.offload(backend=device.name, isolate=False)(doubled)
    # Every memory is under this much pressure.
    with gf.session(history=False, strategy=strategy, pressure_warning=1e-6):
        for _ in range(5):
            function(np.ones(100_000, dtype=np.float32))
        assert (KEPT_BYTES[name](device) > 0) is kept
