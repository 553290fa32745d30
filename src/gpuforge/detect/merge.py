"""Merging what several routes report about one GPU into one device; pure functions.

Sightings with the same PCI address, else the same UUID, are one GPU. A route that shows neither is
matched to the vendor's GPUs by id and name, else in order to those that it does not contradict.
Where routes differ, the most trusted one counts, and `origins` records which one that is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import groupby
from typing import Any

from gpuforge.detect.notation import product_of
from gpuforge.detect.pci_ids import id_in_name, integrated, integrated_by_name
from gpuforge.detect.seen import DOUBT, HEARSAY, RENDERER, Sighting
from gpuforge.facts import Absent, Device, Driver, Failed, Toolkit, Vendor, known

# What drivers call a GPU that they know no name of, where another source may.
_FAMILY = re.compile(
    r"(?:AMD )?Radeon(?:\(TM\))? Graphics|(?:NVIDIA )?Graphics Device|"
    r"Intel(?:\(R\))? Graphics(?: \[0x[0-9a-f]{4}\])?",
    re.I,
)
# What drives a card in place of its maker's driver, which a text may tell of all the same.
_INSTEAD = (Driver("nouveau"), Driver("vfio-pci"), Driver("pci-stub"))
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
    single = [_with_id(s) for s in sightings if not s.everywhere and s.trust < HEARSAY]
    placed = [s for s in single if "pci_address" in s.facts]
    for sighting in sorted(placed, key=lambda s: s.trust != 1):
        address = sighting.facts["pci_address"]
        if address not in by_address:
            by_address[address] = Group(sighting.vendor)
            groups.append(by_address[address])
        by_address[address].sightings.append(sighting)
    loose = [s for s in single if "pci_address" not in s.facts]
    for _, batch in groupby(loose, key=lambda s: (s.vendor, s.route)):
        _place(list(batch), groups)
    shown = {group.vendor for group in groups}
    heard = [_with_id(s) for s in sightings if s.trust >= HEARSAY and not s.everywhere]
    heard = [s for s in heard if s.trust < DOUBT or not shown or s.vendor in shown]
    _add_hearsay(heard, groups)
    for sighting in (s for s in sightings if s.everywhere):
        own = [group for group in groups if group.vendor == sighting.vendor]
        if {"name", "compute_capability"} & sighting.facts.keys() and len(own) > 1:
            continue
        groups += [] if own else [Group(sighting.vendor)]
        for group in own or groups[-1:]:
            group.sightings.append(sighting)
    numbers = _printed_numbers(groups)
    return [_device(index, group) for index, group in zip(numbers, groups, strict=True)]


def _with_id(sighting: Sighting) -> Sighting:
    """Return a sighting with the PCI id that is in its name, if there is one."""
    name = str(sighting.facts.get("name", ""))
    ident = id_in_name(sighting.vendor, name) if "pci_id" not in sighting.facts else None
    return replace(sighting, facts={**sighting.facts, "pci_id": ident}) if ident else sighting


def _printed_numbers(groups: Sequence[Group]) -> Sequence[int]:
    """Return the indices printed by the vendor's tool; a gap shows where a GPU is missing."""
    printed = [group.values("index") for group in groups]
    numbers = [min(found) for found in printed if len(found) == 1]
    if len(groups) == len(set(numbers)) and numbers == sorted(numbers):
        return numbers
    return range(len(groups))


def _place(batch: list[Sighting], groups: list[Group]) -> None:
    """Match the GPUs of a route without addresses to groups, or make new groups of them.

    If a route shows more GPUs of the vendor than are known, the rest are new; if it shows fewer,
    each is matched only where a single known GPU can be meant.
    """
    vendor, route = batch[0].vendor, batch[0].route
    free = [
        group
        for group in groups
        if group.vendor == vendor and all(s.route != route for s in group.sightings)
    ]
    for same in (_by_uuid, _surely, _alike):
        rest = []
        for sighting in batch:
            match = next((group for group in free if same(sighting, group)), None)
            if match is None:
                rest.append(sighting)
            else:
                match.sightings.append(sighting)
                free.remove(match)
        batch = rest
    ambiguous = len(batch) < len(free)
    for sighting in batch:
        fitting = [group for group in free if not _contradicts(sighting, group)]
        if not fitting and not (ambiguous and sighting.trust > 1):
            groups.append(Group(sighting.vendor, [sighting]))
        elif fitting and (len(fitting) == 1 or not ambiguous):
            fitting[0].sightings.append(sighting)
            free.remove(fitting[0])


def _add_hearsay(heard: list[Sighting], groups: list[Group]) -> None:
    """Add what a text says to the GPUs that tools show; for a vendor without any, create them."""
    shown = {group.vendor: [g for g in groups if g.vendor == group.vendor] for group in groups}
    placed = any(
        "pci_address" in sighting.facts for group in groups for sighting in group.sightings
    )
    for vendor in dict.fromkeys(sighting.vendor for sighting in heard):
        said = [sighting for sighting in heard if sighting.vendor == vendor]
        own = shown.get(vendor)
        if own is not None and len(own) == 1 and _is_first(own[0], said):
            groups += [Group(vendor, [sighting]) for sighting in said[1:]]
            own[0].sightings.append(said[0])
        elif own is None:
            # A renderer may be another machine's where the bus shows what this machine has.
            said = [one for one in said if not (placed and one.route == RENDERER)]
            groups += [Group(vendor, [sighting]) for sighting in said]
        elif len(said) == len(own) > 1 or not any(group.values("name") for group in own):
            ids = [group.values("pci_id") for group in own]
            if len(said) < len(own) and ids[0] and all(ident == ids[0] for ident in ids):
                products = {product_of(str(one.facts.get("name", ""))) for one in said}
                longest = max(said, key=lambda one: len(str(one.facts.get("name", ""))))
                said = [longest] * len(own) if len(products) == 1 else []  # which is not told
            free = list(own)
            for sighting in said:
                fitting = [group for group in free if not _contradicts(sighting, group)]
                if fitting:
                    fitting[0].sightings.append(sighting)
                    free.remove(fitting[0])
        else:
            only = not any(_is_alike(sighting, group) for sighting in said for group in own)
            for sighting in said:
                if not _is_elsewhere(sighting, groups):
                    _add_to_alike(sighting, own, only=only)
                else:
                    groups.append(Group(vendor, [sighting]))


def _is_first(group: Group, said: list[Sighting]) -> bool:
    """Return whether a tool that shows only the first GPU or a lost one shows one of several."""
    alone = all(sighting.route.endswith("(first GPU)") for sighting in group.sightings)
    lost = all(sighting.facts.keys() == {"pci_address"} for sighting in group.sightings)
    names = {sighting.facts.get("name") for sighting in said}
    return len(said) > 1 and (lost or (alone and len(names) == 1 and _alike(said[0], group)))


def _add_to_alike(sighting: Sighting, own: list[Group], *, only: bool) -> None:
    """Add a sighting to the GPUs of its name, or to the only one if no other is said of it."""
    fitting = [group for group in own if not _contradicts(sighting, group)]
    sure = [group for group in fitting if _is_alike(sighting, group)]
    for group in sure or (fitting if len(own) == 1 and only else ()):
        group.sightings.append(sighting)


def _is_alike(sighting: Sighting, group: Group) -> bool:
    return _surely(sighting, group) or _alike(sighting, group)


def _is_elsewhere(sighting: Sighting, groups: list[Group]) -> bool:
    """Return whether a GPU in the processor is said to have an address that no other has."""
    address = sighting.facts.get("pci_address")
    own = [group for group in groups if group.vendor == sighting.vendor]
    shown = {place for group in groups for place in group.values("pci_address")}
    apart = bool(sighting.facts.get("integrated")) and address is not None
    return apart and address not in shown and all(g.values("pci_address") for g in own)


def _by_uuid(sighting: Sighting, group: Group) -> bool:
    uuid = sighting.facts.get("uuid")
    return bool(uuid and uuid.strip("GPU-0") and uuid in group.values("uuid"))


def _surely(sighting: Sighting, group: Group) -> bool:
    ident, name = (sighting.facts.get(key) for key in ("pci_id", "name"))
    return not _contradicts(sighting, group) and bool(
        (ident and ident in group.values("pci_id")) or (name and name in group.values("name"))
    )


def _alike(sighting: Sighting, group: Group) -> bool:
    """Return whether truncated or differently spelled names mean the same product."""
    name = sighting.facts.get("name")
    return not _contradicts(sighting, group) and any(
        product_of(str(name)) and product_of(str(name)) == product_of(str(other))
        for other in (group.values("name") if name else ())
    )


def _contradicts(sighting: Sighting, group: Group) -> bool:
    """Return whether the two cannot be the same GPU."""
    for fact in ("pci_id", "uuid", "integrated", "architecture", "compute_capability", "index"):
        said = sighting.facts.get(fact)
        if said is None or isinstance(said, Absent | Failed):
            continue
        seen = group.values(fact)
        if fact == "uuid" and not (str(said).startswith("GPU-") and _nvidia_uuids(seen)):
            continue  # some runtimes make up their own UUIDs
        if seen and said not in seen:
            return True
    name = str(sighting.facts.get("name", ""))
    by_name = integrated_by_name(sighting.vendor, name, "") if sighting.vendor == "amd" else None
    if by_name is False and True in map(integrated, group.values("pci_id")):
        return True  # a card's name, a processor's id
    product = product_of(name)
    others = [product_of(str(name)) for name in group.values("name")] if product else []
    return bool(others and all(one and not one & product for one in others))


def _nvidia_uuids(seen: set[Any]) -> bool:
    return all(str(uuid).startswith("GPU-") for uuid in seen)


def _device(index: int, group: Group) -> Device:
    """Return the device described by a group of sightings."""
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
    """Return the sighting to trust for one fact."""
    if not ranked:
        return None

    def worth(sighting: Sighting) -> int:
        value = sighting.facts[name]
        if isinstance(value, Failed):
            return 2
        if isinstance(value, Absent):
            return 3
        if isinstance(value, Driver):
            said_of_others = sighting.trust >= HEARSAY and ranked[0].facts[name] in _INSTEAD
            return 2 if said_of_others else 0 if known(value.version) else 1
        cut = name == "name" and (
            str(value).endswith("...")
            or any(_is_cut(str(value), str(one.facts[name])) for one in ranked)
        )
        family = name == "name" and _FAMILY.fullmatch(str(value)) is not None
        nameless = name == "partitions" and "MIG" in value
        return 1 if cut or nameless or (family and not sighting.facts.get("integrated")) else 0

    return min(ranked, key=worth)


def _is_cut(name: str, whole: str) -> bool:
    """Return whether a name ends amid a word of another."""
    return whole.startswith(name) and name[-1:].isalpha() and whole[len(name) :][:1].isalpha()


def _runtimes(ranked: Iterable[Sighting]) -> tuple[Toolkit, ...]:
    found: dict[str, Toolkit] = {}
    for sighting in ranked:
        for toolkit in sighting.facts.get("runtimes") or ():
            if toolkit.name not in found or not known(found[toolkit.name].version):
                found[toolkit.name] = toolkit
    return tuple(found.values())
