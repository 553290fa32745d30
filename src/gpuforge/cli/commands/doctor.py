"""``gpuforge doctor``: check a machine, make safe repairs, and undo a repair."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gpuforge import settings
from gpuforge.changes.environment import PythonEnvironment
from gpuforge.cli import diagnosis_text, render
from gpuforge.cli.build_planner import plan_builds
from gpuforge.cli.main import FINE, NOTHING, PROBLEM
from gpuforge.diagnose import Finding, Report
from gpuforge.diagnose.run import load_checks, run_checks
from gpuforge.diagnose.site import Site
from gpuforge.errors import PlanRefused, UnknownName
from gpuforge.probe import LiveProbe, Probe, SnapshotProbe

SUMMARY = "check drivers, packages and the environment; make safe repairs"

SHOWN = ("check", "state", "message", "cause", "evidence", "steps", "elapsed_seconds")


_ON = {"action": "store_true"}
_FLAGS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("checks", {"metavar": "CHECK", "nargs": "*"},
     "check or cause to look for (default: all quick checks)"),
    ("--list", _ON, "list the checks and the known causes"),
    ("--skip", {"metavar": "CHECK", "action": "append", "default": []}, "skip a check"),
    ("--deep", _ON, "also run slow checks, which import every installed package"),
    ("--network", _ON, "also run checks that are slow or need the network"),
    ("--plugins", _ON, "also run checks that other packages provide"),
    ("--fix", _ON, "show each repair, ask for confirmation, then apply it"),
    ("--yes", _ON, "apply or undo repairs without asking"),
    ("--undo", {"metavar": "ID"}, "undo a repair ('list' lists all repairs)"),
    ("--snapshot", {"metavar": "DIR"}, "check a recorded machine instead of this one"),
    ("--json", _ON, "print one JSON document"),
)  # fmt: skip


@dataclass(frozen=True)
class Repair:
    """The outcome of one repair.

    It is ``repaired``; ``undone``, because the problem remained or a new one appeared;
    ``refused``, with the reason; or ``declined`` by the user.
    """

    check: str
    cause: str
    outcome: str
    commands: tuple[str, ...]
    undo: str = ""
    reason: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    for name, options, text in _FLAGS:
        parser.add_argument(name, **options, help=text)


def run(arguments: argparse.Namespace) -> int:
    """Check, list, repair or undo."""
    if arguments.list:
        return _list(as_json=arguments.json)
    if arguments.undo:
        return _undo(arguments)
    if arguments.yes and not arguments.fix:
        raise UnknownName("gpuforge doctor: --yes needs --fix or --undo", hint="add --fix")
    if arguments.fix and arguments.snapshot:
        raise PlanRefused("a recorded machine cannot be repaired", hint="omit --snapshot")
    probe = SnapshotProbe(Path(arguments.snapshot)) if arguments.snapshot else LiveProbe()
    report = _checked(arguments, probe)
    repairs: list[Repair] = []
    if arguments.fix:
        if report.environment:
            render.message(f"environment: {report.environment.prefix}")
        tried: set[tuple[str, str]] = set()
        # One at a time, each from a new report, because a repair may change the other findings.
        while found := _repairable(report, tried):
            tried.add((found.check, found.message))
            repairs.append(_repair(found, report, arguments))
            if repairs[-1].outcome in ("repaired", "undone"):
                report = _checked(arguments, probe)
        if not repairs:
            render.message("found nothing that gpuforge can repair")
    if arguments.json:
        render.document(_document(report, tuple(repairs)))
    else:
        render.data(diagnosis_text.render_report(report))
        for repair in repairs:
            render.data(_outcome(repair))
    return _status(report)


def _checked(arguments: argparse.Namespace, probe: Probe) -> Report:
    return run_checks(*arguments.checks, probe=probe, network=arguments.network,
                      deep=arguments.deep, skip=arguments.skip, plugins=arguments.plugins,
                      planner=plan_builds)  # fmt: skip


def _status(report: Report) -> int:
    if report.having("crashed", "error"):
        return PROBLEM
    return FINE if report.having("ok", "warning") else NOTHING


def _repairable(report: Report, tried: set[tuple[str, str]]) -> Finding | None:
    """Return the next finding to repair, or None if none is left."""
    found = (f for f in report.findings if f.repair and f.state in ("error", "warning"))
    return next((f for f in found if (f.check, f.message) not in tried), None)


def _repair(finding: Finding, report: Report, arguments: argparse.Namespace) -> Repair:
    """Show the plan of a repair, check what it would break, ask, apply it, and check again."""
    from gpuforge.changes.apply import apply_plan, undo
    from gpuforge.changes.plan import Plan
    from gpuforge.diagnose.repair import breaks
    from gpuforge.diagnose.requirement import newly_unmet

    plan = Plan(f"{finding.check}: {finding.cause or finding.message}", finding.repair)
    commands = tuple(action.command for action in plan.actions)
    render.message(f"plan for {finding.check}: {finding.message}")
    for command in commands:
        render.message(f"  {command}")

    def ended(outcome: str, undo: str = "", reason: str = "") -> Repair:
        return Repair(finding.check, finding.cause, outcome, commands, undo, reason)

    before = Site(LiveProbe()).requirements
    try:
        plan.check()
        if broken := breaks(Site(LiveProbe()), plan.actions):
            return ended("refused", reason=f"it would break: {'; '.join(map(str, broken))}")
        if not (arguments.yes or settings.load().settings.auto_install or _confirmed()):
            return ended("declined", reason="not confirmed; nothing was changed")
        record = apply_plan(plan)
        asked = {finding.cause} & set(arguments.checks)
        again = run_checks(finding.check, *asked, probe=LiveProbe(), planner=plan_builds)
        broken = newly_unmet(before, Site(LiveProbe()).requirements)
        left = any((f.cause, f.message) == (finding.cause, finding.message)
                   for f in again.having("error", "warning", "crashed"))  # fmt: skip
        if not left and not broken:
            return ended("repaired", undo=record.id)
        undo(record.id)
    except PlanRefused as error:
        return ended("refused", reason=" ".join(filter(None, (str(error), error.hint))))
    reason = "; ".join(map(str, broken)) if broken else "the problem was still there"
    return ended("undone", reason=reason)


def _confirmed() -> bool:
    if not sys.stdin.isatty():
        return False
    render.message("Apply these changes? [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _outcome(repair: Repair) -> str:
    end = f"; undo: gpuforge doctor --undo {repair.undo}" if repair.undo else f": {repair.reason}"
    cause = f" ({repair.cause})" if repair.cause else ""
    return f"{repair.outcome:<8} {repair.check}{cause}{end}"


def _undo(arguments: argparse.Namespace) -> int:
    from gpuforge.changes.apply import undo

    if arguments.undo == "list":
        return _list_records(as_json=arguments.json)
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


def _list_records(*, as_json: bool) -> int:
    """List the repairs that were made; a damaged record does not hide the others."""
    from gpuforge.changes.record import records, unreadable_records

    found, faults = records(), unreadable_records()
    if as_json:
        unreadable = [{"message": str(fault), "hint": fault.hint} for fault in faults]
        render.document({"records": [asdict(one) for one in found], "unreadable": unreadable})
    elif found:
        render.data(render.table([(one.id, one.state, one.title) for one in found]))
    elif not faults:
        render.data("no repairs have been made")
    for fault in faults:
        render.failure(fault)
    return PROBLEM if faults else FINE


def _list(*, as_json: bool) -> int:
    from gpuforge.diagnose.known_error import known_errors

    checks = {name: module.SUMMARY for name, module in load_checks().modules.items()}
    causes = {cause: error.title for cause, error in sorted(known_errors().items())}
    if as_json:
        render.document({"checks": checks, "causes": causes})
    else:
        render.data(render.table(list(checks.items()), heading=("check", "what it checks")))
        render.data("\n" + render.table(list(causes.items()), heading=("cause", "title")))
    return FINE


def _environment_document(environment: PythonEnvironment | None) -> dict[str, object] | None:
    if environment is None:
        return None
    return {
        "prefix": str(environment.prefix),
        "kind": environment.kind,
        "named_by": environment.named_by or None,
        "python": str(environment.python) if environment.python else None,
        "python_version": environment.version or None,
        "not_changed_because": environment.refusal or None,
    }


def _document(report: Report, repairs: tuple[Repair, ...]) -> dict[str, object]:
    findings = [
        {name: getattr(found, name) for name in SHOWN}
        | {"repair": [action.command for action in found.repair]} for found in report.findings
    ]  # fmt: skip
    return {
        "environment": _environment_document(report.environment),
        "findings": findings,
        "network_checked": report.network_checked,
        "repairs": [asdict(repair) for repair in repairs],
    }
