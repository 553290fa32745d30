"""The variables that hide devices are honoured and shown."""

from __future__ import annotations

import pytest

from gpuforge.detect.visible import settings_of, split
from gpuforge.facts import Device, Vendor


def gpus(vendor: Vendor, count: int, start: int = 0) -> list[Device]:
    return [
        Device(start + n, vendor, uuid=f"GPU-{str(n) * 4}aaaa", partitions=("1g.5gb",) * (n == 2))
        for n in range(count)
    ]


@pytest.mark.parametrize(
    ("value", "visible"),
    [
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("0", [0]),
        ("1,0", [0, 1]),
        ("0,9,1", [0]),
        ("0,-1,1", [0]),
        ("1,1", [1]),
        ("GPU-2222", [2]),
        ("MIG-abcd", [2]),
        ("GPU-9999", []),
    ],
)
def test_cuda_visible_devices(value: str, visible: list[int]) -> None:
    kept, hidden = split(gpus("nvidia", 3), {"CUDA_VISIBLE_DEVICES": value})
    assert [device.index for device in kept] == visible
    assert len(kept) + len(hidden) == 3


def test_other_vendors_stay_visible() -> None:
    kept, hidden = split([*gpus("nvidia", 1), *gpus("intel", 1, 1)], {"CUDA_VISIBLE_DEVICES": ""})
    assert [device.vendor for device in kept] == ["intel"]
    assert [device.vendor for device in hidden] == ["nvidia"]


def test_amd_variables_apply_one_after_the_other() -> None:
    environ = {"ROCR_VISIBLE_DEVICES": "1,2", "HIP_VISIBLE_DEVICES": "1"}
    kept, _ = split(gpus("amd", 4), environ)
    assert [device.index for device in kept] == [2]


@pytest.mark.parametrize(
    ("value", "visible"),
    [
        ("level_zero:gpu", [0, 1]),
        ("level_zero:1", [1]),
        ("*:*", [0, 1]),
        ("opencl:cpu", []),
        ("!level_zero:0", [1]),
        ("cuda:*", []),
        ("level_zero:0.1", [0]),
    ],
)
def test_oneapi_device_selector(value: str, visible: list[int]) -> None:
    kept, _ = split(gpus("intel", 2), {"ONEAPI_DEVICE_SELECTOR": value})
    assert [device.index for device in kept] == visible


def test_unset_variables_hide_nothing() -> None:
    devices = [*gpus("nvidia", 2), *gpus("amd", 2, 2)]
    assert split(devices, {}) == (devices, [])
    assert settings_of({"CUDA_VISIBLE_DEVICES": "1", "HOME": "/root"}) == {
        "CUDA_VISIBLE_DEVICES": "1"
    }
