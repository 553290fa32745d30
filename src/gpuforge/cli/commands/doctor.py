"""``gpuforge doctor``: check a machine, repair what is safe, undo a repair."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from gpuforge import settings
from gpuforge.cli import diagnosis_text, render
from gpuforge.cli.main import FINE, NOTHING, PROBLEM
from gpuforge.diagnose import Finding, Report
from gpuforge.diagnose.run import load_checks, run_checks
from gpuforge.errors import PlanRefused
from gpuforge.probe import LiveProbe, Probe, SnapshotProbe

SUMMARY = "check drivers, packages and environment; repair what is safe"

SHOWN = ("check", "state", "message", "cause", "evidence", "steps", "elapsed_seconds")


@dataclass(frozen=True)
class Repair:
    """What became of one repair: ``repaired``, ``still there``, ``refused``, ``declined``."""

    check: str
    cause: str
    outcome: str
    commands: tuple[str, ...]
    undo: str = ""
    reason: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("checks", metavar="CHECK", nargs="*", help="just these, or these causes")
    parser.add_argument("--list", action="store_true", help="list checks and known causes")
    parser.add_argument(
        "--skip", metavar="CHECK", action="append", default=[], help="leave a check out"
    )
    parser.add_argument("--network", action="store_true", help="use the network; slow checks too")
    parser.add_argument("--plugins", action="store_true", help="run checks of other packages too")
    parser.add_argument("--fix", action="store_true", help="plan safe repairs, ask, make them")
    parser.add_argument("--yes", action="store_true", help="make or undo repairs without asking")
    parser.add_argument("--undo", metavar="ID", help="take a repair back ('list' shows them)")
    parser.add_argument("--snapshot", metavar="DIR", help="check a recorded machine")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Check, list, repair or undo."""
    if arguments.list:
        return _list(as_json=arguments.json)
    if arguments.undo:
        return _undo(arguments)
    if arguments.fix and arguments.snapshot:
        raise PlanRefused("a recorded machine cannot be repaired", hint="leave --snapshot out")
    probe = SnapshotProbe(Path(arguments.snapshot)) if arguments.snapshot else LiveProbe()
    report = _checked(arguments, probe)
    repairs: tuple[Repair, ...] = ()
    if arguments.fix:
        repairs = tuple(_repair(finding, arguments) for finding in _repairable(report))
        if repairs:
            report = _checked(arguments, probe)
    if arguments.json:
        render.document(_document(report, repairs))
    else:
        render.data(diagnosis_text.render_report(report))
        for repair in repairs:
            render.data(_told(repair))
    return _status(report)


def _checked(arguments: argparse.Namespace, probe: Probe) -> Report:
    return run_checks(
        *arguments.checks,
        probe=probe,
        network=arguments.network,
        skip=arguments.skip,
        plugins=arguments.plugins,
    )


def _status(report: Report) -> int:
    if report.having("crashed", "error"):
        return PROBLEM
    return FINE if report.having("ok", "warning") else NOTHING


def _repairable(report: Report) -> tuple[Finding, ...]:
    found = tuple(f for f in report.findings if f.repair and f.state in ("error", "warning"))
    if not found:
        render.message("nothing was found that has a safe repair")
    return found


def _repair(finding: Finding, arguments: argparse.Namespace) -> Repair:
    """Show the plan, ask, make it, check again."""
    from gpuforge.changes.apply import apply_plan
    from gpuforge.changes.plan import Plan

    plan = Plan(f"{finding.check}: {finding.cause or finding.message}", finding.repair)
    commands = tuple(action.command for action in plan.actions)
    render.message(f"plan for {plan.title}")
    for command in commands:
        render.message(f"  {command}")

    def ended(outcome: str, undo: str = "", reason: str = "") -> Repair:
        return Repair(finding.check, finding.cause, outcome, commands, undo, reason)

    if plan.refusals:
        return ended("refused", reason="; ".join(plan.refusals))
    if not (arguments.yes or settings.load().settings.auto_install or _agrees()):
        return ended("declined", reason="not agreed to; --yes agrees in advance")
    try:
        record = apply_plan(plan)
    except PlanRefused as error:
        return ended("refused", reason=str(error))
    asked = {finding.cause} & set(arguments.checks)
    again = run_checks(finding.check, *asked, probe=LiveProbe())
    left = any(f.cause == finding.cause for f in again.having("error", "warning", "crashed"))
    return ended("still there" if left else "repaired", undo=record.id)


def _agrees() -> bool:
    if not sys.stdin.isatty():
        return False
    render.message("make these changes? [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _told(repair: Repair) -> str:
    end = f"; undo: gpuforge doctor --undo {repair.undo}" if repair.undo else f": {repair.reason}"
    return f"{repair.outcome:<8} {repair.check} ({repair.cause}){end}"


def _undo(arguments: argparse.Namespace) -> int:
    from gpuforge.changes.apply import undo
    from gpuforge.changes.record import records

    if arguments.undo == "list":
        found = [asdict(record) for record in records()]
        if arguments.json:
            render.document({"records": found})
        else:
            rows = [(record["id"], record["state"], record["title"]) for record in found]
            render.data(render.table(rows) if rows else "nothing was changed yet")
        return FINE
    try:
        record = undo(arguments.undo, even_if_changed=arguments.yes)
    except PlanRefused as error:
        render.failure(error)
        return PROBLEM
    if arguments.json:
        render.document({"undone": asdict(record)})
    else:
        render.data(f"undone: {record.title}")
    return FINE


def _list(*, as_json: bool) -> int:
    from gpuforge.diagnose.known_error import known_errors

    checks = {name: module.SUMMARY for name, module in load_checks().modules.items()}
    causes = {cause: error.title for cause, error in sorted(known_errors().items())}
    if as_json:
        render.document({"checks": checks, "causes": causes})
    else:
        render.data(render.table(list(checks.items()), heading=("check", "what it asks")))
        render.data("\n" + render.table(list(causes.items()), heading=("cause", "title")))
    return FINE


def _document(report: Report, repairs: tuple[Repair, ...]) -> dict[str, object]:
    findings = []
    for finding in report.findings:
        table = {name: getattr(finding, name) for name in SHOWN}
        table["repair"] = [action.command for action in finding.repair]
        findings.append(table)
    return {
        "findings": findings,
        "network_checked": report.network_checked,
        "repairs": [asdict(repair) for repair in repairs],
    }
