"""What one detector saw, before it is merged with the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gpuforge.dataclass import dataclass, field
from gpuforge.detect.source import outputs_of
from gpuforge.facts import NOT_SHOWN, Failed, NotGpu, Toolkit, Vendor, VendorFailure
from gpuforge.probe import Output, Probe

Facts = dict[str, Any]
HEARSAY, DOUBT, RENDERER = 3, 4, "renderer"


@dataclass(frozen=True)
class Sighting:
    """One GPU as reported by one route.

    Attributes
    ----------
    vendor : who made the GPU
    route : the source: ``sysfs``, ``nvml``, ``nvidia-smi -q -x``, ...
    facts : fields of `gpuforge.facts.Device` to values or readings; a missing one is not shown
    trust : which route counts where they differ, lowest first: 0 the vendor's own driver or tool,
        1 the PCI bus, 2 third parties such as OpenCL, 3 what people write (``HEARSAY``), 4 what
        they merely mention, which adds no GPU to those that tools show (``DOUBT``)
    everywhere : whether the facts hold for each GPU of the vendor, of which there is at least one
    """

    vendor: Vendor
    route: str
    facts: Facts = field(default_factory=dict)
    trust: int = 0
    everywhere: bool = False


@dataclass
class Seen:
    """Everything that one detector reports.

    Attributes
    ----------
    sightings : GPUs by route, the most trusted route first
    failures : what should exist but could not be read
    others : what looks like a GPU but is none
    toolkits : runtimes of the machine
    notes : what was skipped, one sentence each
    host : fields of `gpuforge.facts.Host` found in a recorded text
    """

    sightings: list[Sighting] = field(default_factory=list)
    failures: list[VendorFailure] = field(default_factory=list)
    others: list[NotGpu] = field(default_factory=list)
    toolkits: list[Toolkit] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    host: Facts = field(default_factory=dict)

    def add(self, vendor: Vendor, route: str, devices: Iterable[Facts], *, trust: int = 0) -> bool:
        """Add the GPUs that one route reports; return whether it reported any."""
        found = [Sighting(vendor, route, facts, trust) for facts in devices]
        self.sightings += found
        return bool(found)

    def pass_over(self, why: str, name: str | None, *place: str | None) -> None:
        """Add what looks like a GPU but is none; `place` is its PCI address and id."""
        address, ident = place or (None, None)
        self.others.append(NotGpu(name or NOT_SHOWN, address or NOT_SHOWN, ident or NOT_SHOWN, why))

    def fail(self, vendor: str, reason: Failed) -> None:
        """Record a failed reading as the vendor's failure."""
        self.failures.append(VendorFailure(vendor, reason.kind, reason.reason))

    def outputs(
        self, vendor: str, probe: Probe, program: str, *arguments: Sequence[str], ask: bool = True
    ) -> list[Output]:
        """Return a program's outputs (`outputs_of`); an error is recorded as the vendor's."""
        return outputs_of(
            probe, program, *arguments, ask=ask, fail=lambda reason: self.fail(vendor, reason)
        )
