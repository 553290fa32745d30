"""What times depend on: read through the probe, and compared."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gpuforge.facts import Absent, Device, Driver, Failed, Host, Machine, Reading
from gpuforge.probe import LiveProbe, Output
from gpuforge.probe.contract import DEFAULT_TIMEOUT_SECONDS
from gpuforge.profiler.compare.conditions import Conditions, differences, read_conditions

GPU = Device(
    0, "nvidia", name="NVIDIA H200", driver=Driver("nvidia", "580.65"), pci_address="0000:65:00.0"
)


class Bench(LiveProbe):
    """A machine with a CPU governor, and what nvidia-smi says there."""

    def __init__(self, said: Reading[str]) -> None:
        self.said = said
        self.asked: list[str] = []

    def read_bytes(self, path: str) -> Reading[bytes]:
        return b"powersave\n" if path.endswith("scaling_governor") else Absent(f"no file {path}")

    def run(
        self, argv: Sequence[str], *, timeout: float = DEFAULT_TIMEOUT_SECONDS
    ) -> Reading[Output]:
        self.asked += argv
        return Output(0, self.said, "") if isinstance(self.said, str) else self.said


def conditions(said: Reading[str], *devices: Device) -> Conditions:
    return read_conditions(Bench(said), Machine("ok", devices, host=Host(cores=8)))


def test_clocks_power_cap_and_governor_are_read() -> None:
    found = conditions("00000000:65:00.0, 700.00, 1980, [Deprecated], 0x0000000000000004\n", GPU)
    assert found.facts["gpu 0 power cap (W)"] == "700.00"
    assert found.facts["gpu 0 highest clock (MHz)"] == "1980"
    assert (
        found.facts["gpu 0 throttling"] == "no"
    )  # the power cap alone, which is a fact of its own
    assert found.facts["gpu 0 driver"] == "580.65"
    assert found.facts["cpu governor"] == "powersave" and found.facts["cores"] == "8"
    assert found.unknown["gpu 0 application clock (MHz)"] == "nvidia-smi shows [Deprecated]"
    assert "no file" in found.unknown["cpu boost"]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (Failed("nvidia-smi did not end within 5 s"), "did not end"),
        (Absent("no program nvidia-smi"), "no program"),
        ("", "does not list"),
        ("NVIDIA-SMI has failed\n", "does not list"),
        ("00000000:65:00.0, 700.00, 1980, 1, what\n", "no mask of reasons"),
    ],
)
def test_what_cannot_be_read_is_unknown_with_the_reason(said: Reading[str], reason: str) -> None:
    found = conditions(said, GPU)
    assert reason in found.unknown["gpu 0 throttling"]
    assert "gpu 0 throttling" not in found.facts


def test_other_vendors_are_said_not_to_be_read() -> None:
    found = conditions("", Device(0, "amd", name="MI300X"))
    assert found.unknown["gpu 0 power cap (W)"] == "not read from a GPU of amd"


def test_the_digest_is_of_the_hardware() -> None:
    here = conditions("00000000:65:00.0, 700.00, 1980, 1980, 0x0\n", GPU)
    assert here.machine == conditions("00000000:65:00.0, 600.00, 1980, 1980, 0x20\n", GPU).machine
    assert here.machine != conditions("").machine


def test_differences_name_both_sides() -> None:
    cool = conditions("00000000:65:00.0, 700.00, 1980, 1980, 0x0\n", GPU)
    hot = conditions("00000000:65:00.0, 600.00, 1980, 1980, 0x40\n", GPU)
    blind = conditions(Absent("no program nvidia-smi"), GPU)
    assert differences(cool, cool) == []
    assert differences(cool, hot) == [
        "gpu 0 power cap (W): 700.00 → 600.00",
        "gpu 0 throttling: no → yes",
    ]
    line = differences(cool, blind)[-1]
    assert line == "gpu 0 throttling: no → unknown (no program nvidia-smi)"


def test_this_machine() -> None:
    found = read_conditions()
    assert found.facts["python"].startswith("CPython") and found.facts["numpy"]
    assert not set(found.facts) & set(found.unknown) and all(found.unknown.values())
