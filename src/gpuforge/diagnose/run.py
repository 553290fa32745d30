"""Running checks: slow ones last, and so that a failing check does not affect the others."""

from __future__ import annotations

import re
import shlex
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import ModuleType

from gpuforge import log, registry
from gpuforge.diagnose.finding import SEVEREST_FIRST, Finding, Report, fitted
from gpuforge.diagnose.site import NOT_RECORDED, BuildPlanner, Site
from gpuforge.errors import UnknownName
from gpuforge.probe import LiveProbe, Probe

CHECKS = "gpuforge.diagnose.checks"
ENTRY_POINTS = "gpuforge.checks"
CHECK_SECONDS = 5.0


def load_checks(*, plugins: bool = False) -> registry.Registered:
    """Return all checks, including those of other packages if `plugins`."""
    return registry.load(CHECKS, entry_points=ENTRY_POINTS if plugins else None)


def run_checks(
    *names: str,
    probe: Probe | None = None,
    network: bool = False,
    deep: bool = False,
    skip: Iterable[str] = (),
    plugins: bool = False,
    planner: BuildPlanner | None = None,
) -> Report:
    """Run checks and return their findings.

    Parameters
    ----------
    names
        The checks to run; by default all but the slow ones. A cause selects the check that repairs
        it; if there is none, all checks run, and only findings of that cause are returned.
    probe
        The machine to check; this one by default.
    network
        Whether checks may use the network.
    deep
        Whether slow checks run too, which import what is installed.
    skip
        Checks to skip.
    plugins
        Whether to run checks of other packages, too.
    planner
        Chooses framework builds for repairs; without it, such repairs are not offered.

    Raises
    ------
    UnknownName
        If a name is neither a check nor a cause.
    """
    loaded = load_checks(plugins=plugins)
    asked, unrepaired, names = _causes_among(names, loaded.modules)
    chosen = _chosen(loaded.modules, () if unrepaired else names, tuple(skip))
    site = Site(probe or LiveProbe(), network, asked, planner, thorough=deep or bool(names))
    findings = [
        Finding("unknown", f"the check cannot be loaded: {failure.reason}", check=failure.name)
        for failure in loaded.failures
    ]
    for name, check in chosen.items():
        found = [_offered(f, site) for f in _run(name, check, site, slow=deep or name in names)]
        wanted = not unrepaired or name in names
        findings += [f for f in found if wanted or f.cause in unrepaired]
    known = {finding.cause for finding in findings}
    findings += [_not_checkable(cause) for cause in unrepaired if cause not in known]
    environment = site.environment if site.live else None
    ordered = sorted(findings, key=lambda finding: SEVEREST_FIRST.index(finding.state))
    return Report(tuple(ordered), network, environment)


_PIP = re.compile(r"(?<![\w/.-])(?<!uv )(?<!-m )(?:python -m )?pip ((?:un)?install) ")


def _offered(finding: Finding, site: Site) -> Finding:
    """Return `finding` with its repair if gpuforge may make it; else with a step that says why."""
    place, has_pip, like = site.environment.python, site.environment.has_pip, ""
    if site.live and site.environment.made_by_uv and not has_pip:
        like = rf"uv pip \1 --python {shlex.quote(str(place))} "
    elif site.live and has_pip and place and not place.with_name("pip").exists():
        like = rf"{shlex.quote(str(place))} -m pip \1 "  # not the pip of another Python
    if like:
        options = ("--ignore-installed", "--ignore-installed" if has_pip else "--reinstall")
        steps = (_PIP.sub(like, one).replace(*options) for one in finding.steps)
        finding = replace(finding, steps=(*steps,))
    reason = next(filter(None, (action.refusal() for action in finding.repair)), "")
    if not reason:
        return finding
    # Commands that would change a system Python are not shown.
    commands = "; ".join(action.command for action in finding.repair)
    by_hand = "" if site.environment.refusal else f" By hand: {commands}"
    step = f"gpuforge cannot repair this: {reason}.{by_hand}"
    return replace(finding, repair=(), steps=(*finding.steps, step))


def _causes_among(
    names: tuple[str, ...], checks: Mapping[str, ModuleType]
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return the causes among `names`, those of them without a repair, and the checks to run."""
    if all(name in checks for name in names):
        return (), (), names
    from gpuforge.diagnose.known_error import causes, known_error

    asked = tuple(name for name in names if name not in checks and name in causes())
    unrepaired = tuple(cause for cause in asked if not known_error(cause).repaired_by)
    named = (known_error(n).repaired_by if n in asked else n for n in names)
    return asked, unrepaired, tuple(name for name in named if name)


def _not_checkable(cause: str) -> Finding:
    message = f"no check detects {cause}; find it in an error message with: gpuforge explain LOG"
    return Finding("skipped", message, cause, check="known causes")


def _chosen(
    checks: dict[str, ModuleType], names: tuple[str, ...], skip: tuple[str, ...]
) -> dict[str, ModuleType]:
    """Return the checks to run, slow ones last."""
    for name in (*names, *skip):
        if name not in checks:
            raise UnknownName.among("check", name, checks, listing="gpuforge doctor --list")
    ordered = sorted(checks.items(), key=lambda item: _is_slow(item[1]))
    return {n: check for n, check in ordered if n not in skip and (not names or n in names)}


def _is_slow(check: ModuleType) -> bool:
    return bool(getattr(check, "SLOW", False))


def _run(name: str, check: ModuleType, site: Site, *, slow: bool) -> list[Finding]:
    if getattr(check, "NETWORK", False) and not site.network:
        return [Finding("skipped", "not checked: it needs the network; add --network", check=name)]
    if _is_slow(check) and not slow and not site.network:
        reason = f"not checked: it takes seconds; add --deep, or run 'gpuforge doctor {name}'"
        return [Finding("skipped", reason, check=name)]
    if getattr(check, "LIVE", False) and not site.live:
        return [Finding("skipped", NOT_RECORDED.reason, check=name)]
    started = site.probe.clock()
    with log.phase(f"check {name}"):
        answers = (fitted(finding, site) for finding in check.check(site))
        found = _within(getattr(check, "SECONDS", CHECK_SECONDS), name, answers)
    elapsed = site.probe.clock() - started
    return [replace(finding, check=name, elapsed_seconds=elapsed) for finding in found]


def _within(seconds: float, name: str, answers: Iterator[Finding]) -> list[Finding]:
    """Return the findings of a check, or ``unknown`` if it takes longer than `seconds`."""
    found: list[Finding] = []

    def work() -> None:
        try:
            found.extend(answers)
        except Exception as error:  # noqa: BLE001 - one check's mistake must not hide the others
            found.append(Finding("unknown", f"the check failed: {type(error).__name__}: {error}"))

    thread = threading.Thread(target=work, name=f"gpuforge-check-{name}", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # the limits of this process leave no room for a thread
        work()
    else:
        thread.join(seconds)
    if thread.is_alive():
        return [Finding("unknown", f"the check did not finish within {seconds:g} s")]
    return found or [Finding("unknown", "the check returned no result")]
