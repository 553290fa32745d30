"""Staged copies on a real device: the same bits, whatever was computed just before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuforge.runtime.evaluation.opening import open_library
from gpuforge.runtime.staging import CHUNK_BYTES, LEAST_BYTES, TO_DEVICE, TO_HOST

pytestmark = pytest.mark.gpu


@pytest.fixture(params=["torch", "cupy"])
def device(request: pytest.FixtureRequest) -> Any:
    """Return a GPU whose copies are all staged, as soon as they are large enough."""
    pytest.importorskip(request.param, reason=f"{request.param} is not installed")
    found = [d for d in open_library(request.param).devices if getattr(d, "staging", None)]
    if not found:
        pytest.skip(f"no GPU that {request.param} can use")
    before = found[0].staging.refused
    assert "not checked" not in before.values(), "the device was opened without the check"
    assert not any("other bits" in reason for reason in before.values()), before
    found[0].staging.refused = dict.fromkeys(before, "")
    yield found[0]
    assert not any(found[0].staging.refused.values()), found[0].staging.refused
    found[0].staging.refused = before


SIZES = (LEAST_BYTES, LEAST_BYTES + 1, 3 * CHUNK_BYTES - 8, 7 * CHUNK_BYTES + 4096)


@pytest.mark.parametrize("size", SIZES)
def test_bytes_go_there_and_back(size: int, device: Any) -> None:
    values = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
    for _ in range(5):
        there = device.put(values)
        assert np.array_equal(device.get(there), values)


@pytest.mark.parametrize("dtype", ["?", "i2", "f2", "i8", "f4", "f8", "c8", "c16"])
def test_every_dtype_and_order_goes_there_and_back(dtype: str, device: Any) -> None:
    values = np.random.default_rng(0).integers(0, 2, (1500, 1 + LEAST_BYTES // 1000)).astype(dtype)
    for given in (values, np.asfortranarray(values), values.T, values[::2, ::-1]):
        back = device.get(device.put(given))
        assert back.dtype == given.dtype
        assert np.array_equal(back, given)


def test_a_result_is_waited_for_and_an_array_is_there_when_it_is_used(device: Any) -> None:
    values = np.random.default_rng(0).random((3000, 3000), dtype=np.float32)
    expected = None
    for _ in range(10):
        with device.scope():
            there = device.put(values)
            made = there
            for _ in range(20):  # long enough that a copy that does not wait comes too early
                made = made @ there / 1500
            found = device.get(made)
        expected = found if expected is None else expected
        assert np.array_equal(found, expected)
    assert np.isfinite(found).all()
    assert found.min() > 0


def test_memory_that_was_just_in_use_is_not_overwritten(device: Any) -> None:
    """A new array may lie where one lay that a kernel under way still reads."""
    first = np.ones(2 * LEAST_BYTES, np.uint8)
    second = np.full(2 * LEAST_BYTES, 7, np.uint8)
    for _ in range(10):
        with device.scope():
            there = device.put(first)
            sums = [there + number for number in range(20)]
            del there
            device.put(second)
            assert all(int(device.get(s)[-1]) == 1 + n for n, s in enumerate(sums))


def test_the_users_stream_and_device_stay(device: Any) -> None:
    values = np.zeros(2 * LEAST_BYTES, np.uint8)
    if hasattr(device, "torch"):
        cuda = device.torch.cuda
        before = cuda.current_device(), cuda.current_stream()
        stream = cuda.Stream(device.device)
        with cuda.stream(stream):
            device.get(device.put(values))
            assert cuda.current_stream() == stream
        assert (cuda.current_device(), cuda.current_stream()) == before
    else:
        cuda = device.cupy.cuda
        before = cuda.Device().id, cuda.get_current_stream()
        with cuda.Stream(non_blocking=True) as stream:
            device.get(device.put(values))
            assert cuda.get_current_stream() == stream
        assert (cuda.Device().id, cuda.get_current_stream()) == before


@pytest.mark.parametrize("way", [TO_DEVICE, TO_HOST])
def test_the_check_says_why_a_way_is_not_staged(way: str, device: Any) -> None:
    """Printed into the results of `make gpu`: which ways gained on this machine."""
    from gpuforge.runtime import staging

    staging.check(device)
    verdict = device.staging.refused[way]
    print(f"{device.name} {way}: {verdict or 'staged'}")
    assert not verdict or "times as long" in verdict
    device.staging.refused = dict.fromkeys(device.staging.refused, "")
