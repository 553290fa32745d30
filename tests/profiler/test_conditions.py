"""What times depend on: read through the probe, and compared."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuforge.facts import Absent, Device, Driver, Failed, Host, Machine, Reading
from gpuforge.probe import LiveProbe
from gpuforge.profiler.compare import conditions as module
from gpuforge.profiler.compare.conditions import Conditions, differences, read_conditions
from gpuforge.readings import identity

GPU = Device(0, "nvidia", name="NVIDIA H200", driver=Driver("nvidia", "580.65"))
COOL = replace(
    identity(GPU), power_limit_watts=700.0, core_clock_max_hertz=1.98e9, throttle_reasons=()
)


class Governed(LiveProbe):
    """A machine with a CPU governor, and nothing else that says how fast it runs."""

    def read_bytes(self, path: str) -> Reading[bytes]:
        return b"powersave\n" if path.endswith("scaling_governor") else Absent(f"no file {path}")


@pytest.fixture
def conditions(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Read the conditions of a machine whose GPU reads as is given."""

    def read(**changes: Any) -> Conditions:
        class Readers:
            def __init__(self, *_: object) -> None: ...

            def read(self) -> tuple[Any, ...]:
                return (replace(COOL, **changes),)

            def close(self) -> None: ...

        monkeypatch.setattr(module, "DeviceReaders", Readers)
        return read_conditions(Governed(), Machine("ok", (GPU,), host=Host(cores=8)))

    return read


def test_clocks_power_cap_and_governor_are_read(conditions: Any) -> None:
    found = conditions()
    assert found.facts["gpu 0 power cap (W)"] == "700"
    assert found.facts["gpu 0 highest clock (Hz)"] == "1.98e+09"
    assert found.facts["gpu 0 throttled"] == "no" and found.facts["gpu 0 driver"] == "580.65"
    assert found.facts["cpu governor"] == "powersave" and found.facts["cores"] == "8"
    assert found.unknown["gpu 0 highest memory clock (Hz)"]
    assert "no file" in found.unknown["cpu boost"]


def test_what_cannot_be_read_is_unknown_with_the_reason(conditions: Any) -> None:
    found = conditions(throttle_reasons=Failed("NVML: lost"), power_limit_watts=Absent("no NVML"))
    assert found.unknown["gpu 0 throttled"] == "NVML: lost"
    assert found.unknown["gpu 0 power cap (W)"] == "no NVML"
    assert not set(found.facts) & set(found.unknown)


def test_a_machine_without_gpus_has_none_to_read() -> None:
    found = read_conditions(Governed(), Machine("no_gpu", host=Host(cores=8)))
    assert not [name for name in (*found.facts, *found.unknown) if name.startswith("gpu ")]


def test_the_power_cap_alone_is_no_throttling(conditions: Any) -> None:
    assert conditions(throttle_reasons=("power cap",)).facts["gpu 0 throttled"] == "no"
    hot = conditions(throttle_reasons=("power cap", "temperature"))
    assert hot.facts["gpu 0 throttled"] == "temperature"


def test_the_digest_is_of_the_hardware(conditions: Any) -> None:
    assert conditions().machine == conditions(power_limit_watts=600.0).machine
    assert conditions().machine != read_conditions(Governed(), Machine("no_gpu")).machine


def test_differences_name_both_sides(conditions: Any) -> None:
    cool = conditions()
    hot = conditions(power_limit_watts=600.0, throttle_reasons=("temperature",))
    blind = conditions(throttle_reasons=Absent("no NVML"))
    assert differences(cool, cool) == []
    assert differences(cool, hot) == [
        "gpu 0 power cap (W): 700 → 600",
        "gpu 0 throttled: no → temperature",
    ]
    assert differences(cool, blind) == ["gpu 0 throttled: no → unknown (no NVML)"]


def test_this_machine() -> None:
    found = read_conditions()
    assert found.facts["python"].startswith("cpython") and found.facts["numpy"]
    assert not set(found.facts) & set(found.unknown) and all(found.unknown.values())
