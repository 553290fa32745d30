"""Variables that an environment sets when it is activated, as a repair."""

from __future__ import annotations

from pathlib import Path

from gpuforge.changes.action import AppendLines
from gpuforge.diagnose.finding import Finding, of_cause
from gpuforge.diagnose.site import Site
from gpuforge.facts import known


def by_activation(
    site: Site, cause: str, lines: tuple[str, ...], message: str = "", *evidence: str
) -> Finding:
    """Return a cause that `lines` in the activation script mend, or that they are there by now."""
    script = _script(site)
    if lines and lines[-1] in (known(site.probe.read_text(str(script))) or "").splitlines():
        steps = (f"source {script}",)
        return Finding(
            "warning", f"{lines[-1]!r} is in {script}: activate anew", "", evidence, steps
        )
    repair = (AppendLines(script, lines),) if lines and site.is_environment else ()
    return of_cause(cause, "warning", message, evidence=evidence, repair=repair)


def _script(site: Site) -> Path:
    if (site.prefix / "conda-meta").is_dir():
        return site.prefix / "etc" / "conda" / "activate.d" / "gpuforge.sh"
    return site.prefix / "bin" / "activate"
