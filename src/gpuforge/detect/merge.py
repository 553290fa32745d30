"""One device from what several routes saw of it; pure functions.

Sightings are the same GPU when they share a PCI address, else a UUID. A route that shows neither
is matched to the vendor's GPUs by id and name, else one to one when the counts agree. Where routes
differ, the most trusted word counts, and `origins` says whose it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from itertools import groupby
from typing import Any

from gpuforge.detect.seen import Sighting
from gpuforge.facts import Absent, Device, Driver, Failed, Toolkit, Vendor, known

FACTS = frozenset(f.name for f in fields(Device)) - {"index", "vendor", "runtimes", "origins"}


@dataclass
class Group:
    """The sightings of one GPU."""

    vendor: Vendor
    sightings: list[Sighting] = field(default_factory=list)

    def values(self, name: str) -> set[Any]:
        """Return every known value of one fact."""
        found = (sighting.facts.get(name) for sighting in self.sightings)
        return {
            value for value in found if value is not None and not isinstance(value, Absent | Failed)
        }


def merge(sightings: Sequence[Sighting]) -> list[Device]:
    """Return the devices in the order in which the routes show them."""
    groups: list[Group] = []
    by_address: dict[str, Group] = {}
    placed = [s for s in sightings if "pci_address" in s.facts]
    for sighting in sorted(placed, key=lambda s: s.trust != 1):
        address = sighting.facts["pci_address"]
        if address not in by_address:
            by_address[address] = Group(sighting.vendor)
            groups.append(by_address[address])
        by_address[address].sightings.append(sighting)
    loose = [s for s in sightings if "pci_address" not in s.facts]
    for _, batch in groupby(loose, key=lambda s: (s.vendor, s.route)):
        _place(list(batch), groups)
    return [_device(index, group) for index, group in enumerate(groups)]


def _place(batch: list[Sighting], groups: list[Group]) -> None:
    """Match the GPUs of a route without addresses to the groups, or make groups of them."""
    free = [group for group in groups if group.vendor == batch[0].vendor]
    new = not free
    rest = []
    for sighting in batch:
        match = next((g for g in free if _surely(sighting, g)), None)
        if match is None:
            rest.append(sighting)
        else:
            match.sightings.append(sighting)
            free.remove(match)
    if len(rest) == len(free):
        for sighting, group in zip(rest, free, strict=True):
            if not _contradicts(sighting, group):
                group.sightings.append(sighting)
        return
    if new:
        groups += [Group(sighting.vendor, [sighting]) for sighting in rest]


def _surely(sighting: Sighting, group: Group) -> bool:
    uuid, ident, name = (sighting.facts.get(key) for key in ("uuid", "pci_id", "name"))
    if uuid and uuid.strip("GPU-0") and uuid in group.values("uuid"):
        return True
    return bool(
        (ident and ident in group.values("pci_id")) or (name and name in group.values("name"))
    )


def _contradicts(sighting: Sighting, group: Group) -> bool:
    ident, seen = sighting.facts.get("pci_id"), group.values("pci_id")
    return bool(ident and seen and ident not in seen)


def _device(index: int, group: Group) -> Device:
    """Return the device that a group of sightings describes."""
    ranked = sorted(group.sightings, key=lambda s: s.trust)
    facts: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for name in FACTS:
        best = _best(name, [s for s in ranked if name in s.facts])
        if best is not None:
            facts[name] = best.facts[name]
            origins[name] = best.route
    runtimes = _runtimes(ranked)
    if runtimes:
        origins["runtimes"] = next(s.route for s in ranked if s.facts.get("runtimes"))
    return Device(index, group.vendor, runtimes=runtimes, origins=origins, **facts)


def _best(name: str, ranked: list[Sighting]) -> Sighting | None:
    """Return the sighting whose word counts for one fact."""
    if not ranked:
        return None

    def worth(sighting: Sighting) -> int:
        value = sighting.facts[name]
        if isinstance(value, Failed):
            return 2
        if isinstance(value, Absent):
            return 3
        if isinstance(value, Driver):
            return 0 if known(value.version) else 1
        cut = name == "name" and str(value).endswith("...")
        nameless = name == "partitions" and "MIG" in value
        return 1 if cut or nameless else 0

    return min(ranked, key=worth)


def _runtimes(ranked: Iterable[Sighting]) -> tuple[Toolkit, ...]:
    found: dict[str, Toolkit] = {}
    for sighting in ranked:
        for toolkit in sighting.facts.get("runtimes") or ():
            if toolkit.name not in found or not known(found[toolkit.name].version):
                found[toolkit.name] = toolkit
    return tuple(found.values())
