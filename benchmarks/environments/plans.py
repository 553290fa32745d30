"""Which builds do recorded machines get? Writes the table in docs/environment-plans.md.

usage: python benchmarks/environments/plans.py FOLDER-OF-SNAPSHOTS [--check]
"""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path

from gpuforge.compat.builds import FRAMEWORKS
from gpuforge.detect import read_machine
from gpuforge.environment import advice
from gpuforge.environment.obstacles import capabilities, device_name, driver_version, gfx_target
from gpuforge.environment.profile import load_profiles
from gpuforge.environment.selection import accelerators_of, devices_for
from gpuforge.errors import EnvironmentMismatch
from gpuforge.facts import Device, Machine
from gpuforge.probe import SnapshotProbe

TABLE = Path(__file__).parents[2] / "docs" / "environment-plans.md"
PYTHON = "3.12"
TODAY = date(2026, 11, 21)
HEAD = """\
# Plans for recorded machines

What `gpuforge env plan` chooses for machines whose outputs were recorded, profile `lightweight`,
Python 3.12. Written by `python benchmarks/environments/plans.py FOLDER`; a test compares it.
"refused" names the one change that would help; `--cpu-only` is offered beside it. A cell "cpu" on a
machine with a GPU means that no known build serves that GPU.

| machine | fittest device | capability or target | driver | platform | recommended | pytorch \
| tensorflow | jax |
|---|---|---|---|---|---|---|---|---|
"""


def snapshots(folder: Path) -> list[Path]:
    """Return the folders of recorded machines, by name."""
    return sorted(path for path in folder.iterdir() if (path / "expected.toml").is_file())


def machine_of(snapshot: Path) -> Machine:
    """Return the facts of one recorded machine."""
    return read_machine(SnapshotProbe(snapshot))


def row(name: str, machine: Machine) -> str:
    """Return the line of one machine."""
    order = accelerators_of(machine)
    device = devices_for(machine, order[0])[0] if order else None
    plans = [
        advice.plan(
            load_profiles()["lightweight"], framework, machine=machine, python=PYTHON, today=TODAY
        )
        for framework in FRAMEWORKS
    ]
    cells = [name, *_device(device), plans[0].target.platform, _recommended(machine)]
    for plan in plans:
        if plan.build is not None:
            where = plan.build.variant if plan.accelerator != "cpu" else "cpu"
            cells.append(f"{plan.build.version} {where}")
        elif plan.refusal is not None:
            change = plan.refusal.change
            cells.append(f"refused: {change.kind} {change.need}" if change else "refused")
    return f"| {' | '.join(cell.replace('|', '/') or '-' for cell in cells)} |"


def _device(device: Device | None) -> tuple[str, str, str]:
    if device is None:
        return "-", "-", "-"
    if device.vendor == "nvidia":
        shown = " or ".join(capabilities(device))
        return device_name(device), shown, driver_version(device) or ""
    return device_name(device), (gfx_target(device) or "") if device.vendor == "amd" else "", ""


def _recommended(machine: Machine) -> str:
    try:
        best = advice.recommend(machine, python=PYTHON)
    except EnvironmentMismatch:
        return "none"
    return f"{best.profile.name} ({best.fit.score})"


def render(folder: Path) -> str:
    """Return the whole table."""
    rows = [row(path.name, machine_of(path)) for path in snapshots(folder)]
    return HEAD + "\n".join(rows) + "\n"


def main() -> int:
    text = render(Path(sys.argv[1]))
    if "--check" in sys.argv:
        return int(text != TABLE.read_text(encoding="utf-8"))
    TABLE.parent.mkdir(exist_ok=True)
    TABLE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
