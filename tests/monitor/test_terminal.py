"""What the terminal shows of a sample, at every size."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuforge.facts import Absent, Failed, VendorFailure
from gpuforge.monitor.terminal import bar, columns, fit, screen
from tests.monitor.made import gpu, process, sample

FULL = """\
gpuforge top  HH:MM:SS  own cost 0.2 %                                   q quits
CPU  [|||||||             ]  37 %  8 cores  load 0.50 1.00 2.00
Mem  [||||||||||          ]  50 %  16 GiB of 32 GiB  swap 1 GiB
     waiting for CPU 10 %, memory 0 %, I/O 2 %
GPU 0  NVIDIA GeForce RTX 3080  0000:0c:00.0
busy [|||||||||||||       ]  65 %  142 of 320 W  71 °C  1950 of 2100 MHz
mem  [||||||||||||||||||  ]  90 %  9 GiB of 10 GiB  pressure: moderate
     PCIe 4 x16  in 1 GiB/s  out 0 B/s

    PID   CPU   MEMORY  GPU MEM   CALLS QUEUE RUN BATCH  PROGRAM AND ACTIVITY
      7 125 %  256 MiB    1 GiB     12k     3   1     5  train.py on torch:cuda:"""


def shown(width: int = 80, height: int = 24, **values: object) -> str:
    made = sample((gpu(),), (process(),))
    lines = screen(made, width, height, own="own cost 0.2 %", keys="q quits", **values)  # type: ignore[arg-type]
    return re.sub(r"\d\d:\d\d:\d\d", "HH:MM:SS", "\n".join(lines), count=1)


def test_a_screen_of_80_columns() -> None:
    assert shown() == FULL


def test_a_wide_screen_shows_what_a_process_does() -> None:
    assert shown(120).endswith("train.py on torch:cuda:0 9.5 s: epoch 3")


@pytest.mark.parametrize("height", range(1, 16))
def test_a_low_screen_shows_what_finds_room(height: int) -> None:
    lines, full = shown(80, height).splitlines(), FULL.splitlines()
    assert len(lines) <= height and lines[:4] == full[: min(height, 4)]
    assert height < 8 or lines[-1] == full[-1]
    assert ("PCIe" in "".join(lines)) is (height >= 13)


def test_processes_that_find_no_room_are_counted() -> None:
    many = sample((), tuple(process(n) for n in range(50)))
    lines = screen(many, 80, 24)
    assert len(lines) == 24 and lines[-1] == "and 34 more"


def test_a_narrow_screen_shows_how_to_quit() -> None:
    assert shown(35).splitlines()[0] == "gpuforge top  HH:MM:SS  own q quits"
    assert shown(3).splitlines()[0] == " q "


def test_colour_only_adds_to_the_words() -> None:
    coloured = shown(colour=True)
    assert "\x1b[33m" in coloured
    assert re.sub(r"\x1b\[\d+m", "", coloured) == FULL


def test_what_is_not_known_is_no_number() -> None:
    names = ("utilization_ratio", "memory_used_bytes", "power_watts", "temperature_celsius",
             "core_clock_hertz", "link_width", "processes")  # fmt: skip
    lines = screen(sample((gpu(**dict.fromkeys(names, Absent("x"))),), (process(),)), 80, 24)
    assert lines[5] == "busy [                    ]    -   - W  - °C  - MHz"
    assert lines[6] == "mem  [                    ]    -   - of 10 GiB"
    assert lines[7] == "     PCIe -"
    assert lines[10].split()[:5] == ["7", "125", "%", "256", "MiB"] and " - " in lines[10]


def test_many_gpus_leave_room_for_processes() -> None:
    eight = [gpu(n) for n in range(7)] + [gpu(7, utilization_ratio=Failed("GPU is lost"))]
    lines = screen(sample((gpu(8, throttle_reasons=("heat",)), *eight), (process(),)), 100, 24)
    assert lines[4].startswith(
        "GPU 8    65 %  9 GiB of 10 GiB        142 W  71 °C  throttled  NVIDIA"
    )
    assert lines[12] == "GPU 7  failed: GPU is lost"
    assert "train.py" in lines[-1] and len(lines) == 16


def test_the_busiest_processes_come_first() -> None:
    idle = replace(process(1), cpu_ratio=Absent("first"))
    lines = screen(sample((), (idle, process(2), replace(process(3), cpu_ratio=1.5))), 80, 24)
    assert [line.split()[0] for line in lines[-3:]] == ["3", "2", "1"]


def test_what_fails_is_said() -> None:
    lost = gpu(utilization_ratio=Failed("NVML: GPU is lost", "gpu_lost"))
    failure = VendorFailure("amd", "kfd_permission", "no permission for /dev/kfd")
    lines = screen(sample((lost,), (), failures=(failure,)), 80, 24)
    assert "     failed: NVML: GPU is lost" in lines
    assert "failed: amd: no permission for /dev/kfd" in lines


def test_throttling_narrow_links_and_full_memory_are_named() -> None:
    lines = screen(
        sample((gpu(throttle_reasons=("power cap",), link_width=8, memory_used_bytes=10 * 2**30),)),
        80, 24,
    )  # fmt: skip
    assert "     throttled: power cap" in lines
    assert any("PCIe 4 x8 (at most 4 x16)" in line for line in lines)
    assert any(line.endswith("pressure: critical") for line in lines)


@given(st.text(max_size=60), st.integers(0, 40))
def test_no_text_is_wider_than_it_may_be_or_holds_what_a_terminal_obeys(
    text: str, width: int
) -> None:
    cut = fit(text, width)
    assert columns(cut) <= width
    assert cut.isascii() or all(letter.isprintable() for letter in cut)


@given(st.floats(allow_nan=False))
def test_a_bar_is_always_of_one_length(share: float) -> None:
    assert len(bar(share)) == 22
