"""A stand-in for ``pynvml`` that answers what ``nvidia-smi -q -x`` printed of a recorded GPU."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pynvml

NOT_SUPPORTED, TIMEOUT = 3, 10
# What NVML is asked: the section of the XML, its tag, and how many of NVML's units one of it is.
_TAGS: dict[str, tuple[str, str, float]] = {
    "PowerUsage": ("(?:gpu_)?power_readings", "(?:instant_)?power_draw", 1000),
    "EnforcedPowerLimit": ("(?:gpu_)?power_readings", "(?:current|enforced)_power_limit", 1000),
    "Temperature": ("temperature", "gpu_temp", 1),
    "TemperatureThreshold": ("temperature", "gpu_temp_slow_threshold", 1),
    "ClockInfo/0": ("clocks", "graphics_clock", 1),
    "ClockInfo/2": ("clocks", "mem_clock", 1),
    "MaxClockInfo/0": ("max_clocks", "graphics_clock", 1),
    "MaxClockInfo/2": ("max_clocks", "mem_clock", 1),
    "CurrPcieLinkGeneration": ("pcie_gen", "current_link_gen", 1),
    "MaxPcieLinkGeneration": ("pcie_gen", "max_link_gen", 1),
    "CurrPcieLinkWidth": ("link_widths", "current_link_width", 1),
    "MaxPcieLinkWidth": ("link_widths", "max_link_width", 1),
    "PcieThroughput/0": ("pci", "tx_util", 1),
    "PcieThroughput/1": ("pci", "rx_util", 1),
    "busy": ("utilization", "gpu_util", 1),
    "memory busy": ("utilization", "memory_util", 1),
    "total": ("fb_memory_usage", "total", 2**20),
    "used": ("fb_memory_usage", "used", 2**20),
}
_BITS = {
    "gpu_idle": 1, "sw_power_cap": 4, "hw_slowdown": 8, "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40, "hw_power_brake_slowdown": 0x80,
}  # fmt: skip


class Replayed:
    """NVML of one recorded GPU. Counts what it is asked; `errors` are codes by function.

    Attributes
    ----------
    answers : what the functions return, by their names without ``nvmlDeviceGet``
    events : Xid errors that come
    mask : reasons of throttling
    """

    NVMLError = pynvml.NVMLError
    nvmlLib: Any = None

    def __init__(self, text: str) -> None:
        self.asked: list[str] = []
        self.errors: dict[str, int] = {}
        self.events: list[int] = []
        self.opened = 0
        found = {name: _number(text, *place) for name, place in _TAGS.items()}
        busy, memory = found.pop("busy"), found.pop("memory busy")
        total, used = found.pop("total"), found.pop("used")
        self.answers: dict[str, Any] = {
            **found,
            "UtilizationRates": SimpleNamespace(gpu=busy, memory=memory)
            if busy is not None
            else None,
            "MemoryInfo": SimpleNamespace(total=total, used=used),
            "GraphicsRunningProcesses": [],
            "ComputeRunningProcesses": [
                SimpleNamespace(pid=int(pid), usedGpuMemory=int(memory) * 2**20)
                for pid, memory in re.findall(
                    r"<pid>(\d+)</pid>.*?<used_memory>(\d+) MiB<", text, re.S
                )
            ],
        }
        flags = re.findall(r"<clocks_(?:event|throttle)_reason_(\w+)>\s*Active\s*<", text)
        self.mask = sum(_BITS.get(flag, 0) for flag in flags)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml"):
            raise AttributeError(name)

        def ask(*arguments: Any) -> Any:
            self.asked.append(name)
            if name in self.errors:
                raise pynvml.NVMLError(self.errors[name])
            return self._answer(name, arguments)

        return ask

    def _answer(self, name: str, arguments: tuple[Any, ...]) -> Any:
        if name in ("nvmlInit", "nvmlShutdown"):
            self.opened += 1 if name == "nvmlInit" else -1
        elif name == "nvmlDeviceGetCurrentClocksEventReasons":
            return self.mask
        elif name == "nvmlEventSetWait_v2":
            if not self.events:
                raise pynvml.NVMLError(TIMEOUT)
            return SimpleNamespace(eventData=self.events.pop(0))
        elif name.startswith("nvmlDeviceGet") and "Handle" not in name:
            asked = name.removeprefix("nvmlDeviceGet")
            found = self.answers.get(asked)
            if found is None:
                found = self.answers.get(f"{asked}/{arguments[-1]}")
            if found is None:
                raise pynvml.NVMLError(NOT_SUPPORTED)
            return found
        return None


def _number(text: str, section: str, tag: str, scale: float) -> int | None:
    inside = re.search(rf"<{section}>(.*?)</{section}>", text, re.S)
    said = re.search(rf"<{tag}>\s*(\d+(?:\.\d+)?)[^<]*</", inside[1]) if inside else None
    return round(float(said[1]) * scale) if said else None
