"""What changed between two readings of a machine: GPUs that came, went or fail, and drivers."""

from __future__ import annotations

from gpuforge.facts import Device, Machine, known


def differences(before: Machine, after: Machine) -> list[str]:
    """Return a sentence for each change that matters to programs; live readings are ignored."""
    old, new = _devices(before), _devices(after)
    found = [f"{_name(old[key])} disappeared" for key in old if key not in new]
    found += [f"{_name(new[key])} appeared" for key in new if key not in old]
    for key in old.keys() & new.keys():
        was, now = _driver(old[key]), _driver(new[key])
        if was != now:
            found.append(f"{_name(new[key])}: driver changed from {was} to {now}")
    faults, seen = ({(f.vendor, f.kind): f.message for f in m.failures} for m in (before, after))
    found += [f"{vendor}: {kind} is resolved" for vendor, kind in faults.keys() - seen.keys()]
    found += [f"{key[0]} fails: {key[1]}: {seen[key]}" for key in seen.keys() - faults.keys()]
    return sorted(found)


def _devices(machine: Machine) -> dict[str, Device]:
    """Return the GPUs by a stable key: the address, else the UUID, else name and position."""
    return {
        known(d.pci_address) or known(d.uuid) or f"{d.vendor} {known(d.name)} {d.index}": d
        for d in machine.devices
    }


def _name(device: Device) -> str:
    place = known(device.pci_address)
    return f"{known(device.name) or device.vendor}" + (f" at {place}" if place else "")


def _driver(device: Device) -> str:
    driver = known(device.driver)
    return (known(driver.version) if driver else None) or "unknown"
