"""The context of an error: vendor, platform and tools, from the log and the machine."""

from __future__ import annotations

import re
from functools import cached_property

from gpuforge.diagnose.known_error import Sign, compiled, contexts
from gpuforge.diagnose.log import Log
from gpuforge.diagnose.shadowing import hides_module
from gpuforge.facts import Machine, known

PLATFORMS = ("linux", "windows", "macos", "wsl", "container")
TOOLS = ("uv", "pixi", "conda", "pip")
# Causes of these areas occur only on these platforms, whether or not the log shows it.
PLATFORM_OF_AREA = {"wsl": "wsl", "windows": "windows", "apple_metal_mlx": "macos"}
_STEP = re.compile(rf"({'|'.join((*PLATFORMS, *TOOLS))}): ")
_LIBRARY_MAJOR = re.compile(r"lib(?:cudart|cublas|cublaslt|nvrtc)\.so\.(\d+)")
# A pattern that begins with letters is much faster than one that begins with a choice.
_CUDA_MAJOR = re.compile(
    r"cu(?:da(?:[ _-]?version)?[ :=/-]{0,3}v?(1[0-4])\b(?!x)"
    r"|(?<=\bcu)(1[0-4])\d?\b|da-?(1[0-4])\.\d)"
)
CUDA_SEARCHED_CHARACTERS = 200_000


class Surroundings:
    """Answers questions of clues and steps about the context of an error."""

    def __init__(self, log: Log, machine: Machine | None = None) -> None:
        self._log = log
        self._machine = machine
        self._known: dict[str, bool] = {}

    @cached_property
    def failures(self) -> dict[str, str]:
        """Messages of detection failures on the machine, by kind."""
        failures = self._machine.failures if self._machine else ()
        return {failure.kind: failure.message for failure in failures}

    @cached_property
    def memory_total_bytes(self) -> int | None:
        """Memory of the machine's smallest card; None if unknown."""
        devices = self._machine.devices if self._machine else ()
        sizes = [size for d in devices if (size := known(d.memory_total_bytes))]
        return min(sizes, default=None)

    def has(self, sign: str) -> bool:
        """Return whether the log contains a text, or an ``@context`` applies."""
        if sign not in self._known:
            self._known[sign] = self._look(sign)
        return self._known[sign]

    def has_other_cuda_major(self, line: str) -> bool:
        """Return whether the log mentions another CUDA major version than a library in `line`."""
        wanted = _LIBRARY_MAJOR.search(line)
        return wanted is not None and bool(self._cuda_majors - {wanted[1]})

    def shows_hidden_module(self, position: int) -> bool:
        """Return whether the traceback at `position` shows a file that hides a module."""
        return hides_module(self._log.folded, position)

    @cached_property
    def _cuda_majors(self) -> frozenset[str]:
        text = self._log.folded[:CUDA_SEARCHED_CHARACTERS]
        return frozenset(next(filter(None, m.groups())) for m in _CUDA_MAJOR.finditer(text))

    def steps(self, steps: tuple[str, ...], area: str = "") -> tuple[str, ...]:
        """Return the steps for this platform and tool, with the commands filled in."""
        shown = []
        here = self.platforms
        if own := PLATFORM_OF_AREA.get(area):
            here = (here - {"linux"} if own in ("windows", "macos") else here) | {own}
        for step in steps:
            prefix = _STEP.match(step)
            if prefix is None or self._applies(prefix[1], here):
                text = step[prefix.end() :] if prefix else step
                shown.append(text.replace("{pip}", self._installer))
        return tuple(shown)

    def _applies(self, prefix: str, here: frozenset[str]) -> bool:
        if prefix in PLATFORMS:
            return prefix in here
        if prefix == "pip":
            return self.tool in ("pip", "uv")
        return prefix == self.tool

    @property
    def _installer(self) -> str:
        return "uv pip" if self.tool == "uv" else "python -m pip"

    @cached_property
    def tool(self) -> str:
        """The package tool that the log shows; pip if it shows none."""
        return next((tool for tool in TOOLS[:-1] if self.has(f"@{tool}")), "pip")

    @cached_property
    def platforms(self) -> frozenset[str]:
        """The platforms whose steps apply."""
        found = {name for name in ("windows", "macos", "wsl", "container") if self.has(f"@{name}")}
        if self._machine and (name := known(self._machine.host.platform)):
            found.add("wsl" if name == "wsl2" else name)
        if not found & {"windows", "macos"}:
            found.add("linux")
        return frozenset(found)

    def _look(self, sign: str) -> bool:
        if not sign.startswith("@"):
            return sign in self._log
        name = sign[1:]
        return any(self._stands(one) for one in contexts()[name]) or self._machine_has(name)

    def _stands(self, sign: Sign) -> bool:
        places = self._log.places(sign.text)
        return any(not sign.match or compiled(sign.match).search(p.window) for p in places)

    def _machine_has(self, name: str) -> bool:
        if self._machine is None:
            return False
        vendors = {device.vendor for device in self._machine.devices}
        platform = known(self._machine.host.platform)
        return {
            "amd": "amd" in vendors and "nvidia" not in vendors,
            "intel_gpu": "intel" in vendors and "nvidia" not in vendors,
            "sees_nvidia": "nvidia" in vendors,
            "wsl": platform == "wsl2",
            "macos": platform == "macos",
            "windows": platform == "windows",
            "container": bool(known(self._machine.host.container)),
        }.get(name, False)
