"""What one detector saw, before it is merged with what the others saw."""

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
    """One GPU as one route saw it.

    Attributes
    ----------
    vendor : who made the GPU
    route : what told it: ``sysfs``, ``nvml``, ``nvidia-smi -q -x``, ...
    facts : fields of `gpuforge.facts.Device` to values or readings; what is left out is not shown
    trust : whose word counts where routes differ, the lower first: 0 the vendor's own driver or
        tool, 1 the PCI bus, 2 a bystander such as OpenCL, 3 what people write (``HEARSAY``), 4 what
        they merely name, which makes no GPU beside those that tools show (``DOUBT``)
    everywhere : whether the facts hold for each GPU of the vendor, of which there is at least one
    """

    vendor: Vendor
    route: str
    facts: Facts = field(default_factory=dict)
    trust: int = 0
    everywhere: bool = False


@dataclass
class Seen:
    """Everything one detector has to say.

    Attributes
    ----------
    sightings : GPUs by route, the most trusted route first
    failures : what should be there and could not be read
    others : what looks like a GPU and is none
    toolkits : runtimes of the machine
    notes : what was skipped, one sentence each
    host : fields of `gpuforge.facts.Host` that a recorded text tells
    """

    sightings: list[Sighting] = field(default_factory=list)
    failures: list[VendorFailure] = field(default_factory=list)
    others: list[NotGpu] = field(default_factory=list)
    toolkits: list[Toolkit] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    host: Facts = field(default_factory=dict)

    def add(self, vendor: Vendor, route: str, devices: Iterable[Facts], *, trust: int = 0) -> bool:
        """Add what one route says of each GPU; return whether it said anything."""
        found = [Sighting(vendor, route, facts, trust) for facts in devices]
        self.sightings += found
        return bool(found)

    def pass_over(self, why: str, name: str | None, *place: str | None) -> None:
        """Add what looks like a GPU and is none; `place` is its PCI address and id."""
        address, ident = place or (None, None)
        self.others.append(NotGpu(name or NOT_SHOWN, address or NOT_SHOWN, ident or NOT_SHOWN, why))

    def fail(self, vendor: str, reason: Failed) -> None:
        """Add a reading that failed as the vendor's failure."""
        self.failures.append(VendorFailure(vendor, reason.kind, reason.reason))

    def outputs(
        self, vendor: str, probe: Probe, program: str, *arguments: Sequence[str], ask: bool = True
    ) -> list[Output]:
        """Return what a program says (`outputs_of`); where it fails is the vendor's failure."""
        return outputs_of(
            probe, program, *arguments, ask=ask, fail=lambda reason: self.fail(vendor, reason)
        )
