"""Variables that an environment sets when it is activated, as a repair."""

from __future__ import annotations

from pathlib import Path

from gpuforge.diagnose.finding import Finding, of_cause
from gpuforge.diagnose.site import Site
from gpuforge.facts import known


def by_activation(
    site: Site, cause: str, lines: tuple[str, ...], message: str = "", *evidence: str
) -> Finding:
    """Return a cause that `lines` in the activation script repair, unless they are there."""
    from gpuforge.changes.action import AppendLines

    script = _script(site)
    if lines and lines[-1] in (known(site.probe.read_text(str(script))) or "").splitlines():
        steps = (f"source {script}",)
        message = f"{script} sets it already: activate the environment again"
        return Finding("warning", message, "", evidence, steps)
    repair = (AppendLines(script, lines),) if lines and not site.environment.refusal else ()
    return of_cause(cause, "warning", message, evidence=evidence, repair=repair)


def _script(site: Site) -> Path:
    if (site.environment.prefix / "conda-meta").is_dir():
        return site.environment.prefix / "etc" / "conda" / "activate.d" / "gpuforge.sh"
    return site.environment.prefix / "bin" / "activate"
