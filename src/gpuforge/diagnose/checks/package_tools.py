"""Do pip, uv and conda work on the active environment, and do they agree about it?"""

from __future__ import annotations

import json
from collections.abc import Iterator

from gpuforge.diagnose.finding import Finding
from gpuforge.diagnose.site import NOT_RECORDED, Site
from gpuforge.facts import Failed
from gpuforge.probe import Output

SUMMARY = "pip, uv and conda work in this environment and find it consistent"
SLOW = True
SECONDS = 90.0

TOOL_SECONDS = 40.0
SHOWN = 5


def check(site: Site) -> Iterator[Finding]:
    """Yield what each available tool reports about the environment."""
    if not site.live or site.environment.fault:
        yield Finding("skipped", site.environment.fault if site.live else NOT_RECORDED.reason)
        return
    python = str(site.environment.python)
    if site.environment.has_pip:
        argv = [python, "-B", "-m", "pip", "check", "--disable-pip-version-check"]
        yield _run_tool(site, "pip", argv)
    own = site.environment.prefix / "bin" / "uv"
    if own.exists() or isinstance(site.probe.find_program("uv"), str):
        uv = str(own) if own.exists() else "uv"
        yield _run_tool(site, "uv", [uv, "pip", "check", "--offline", "--python", python])
    if (site.environment.prefix / "conda-meta").is_dir():
        bad = tuple(_conda(site))
        yield from bad or [Finding("ok", "conda's records of the environment are intact")]


def _run_tool(site: Site, tool: str, argv: list[str]) -> Finding:
    output = site.probe.run(argv, timeout=TOOL_SECONDS)
    if not isinstance(output, Output):
        reason = output.reason if isinstance(output, Failed) else "it is not installed"
        return Finding("error", f"{tool} does not run: {reason}")
    lines = tuple(line for line in (output.stdout + output.stderr).splitlines() if line.strip())
    broken = tuple(line for line in lines if " require" in line or "is not supported" in line)
    if not output.status:
        return Finding("ok", f"{tool} works and finds all requirements met")
    if broken:
        steps = ("Install versions that fit together, or create a new environment.",)
        return Finding("warning", f"{tool} finds unmet requirements", "",
                       broken[:SHOWN], steps)  # fmt: skip
    return Finding("error", f"{tool} failed with exit status {output.status}", "", lines[-SHOWN:])


def _conda(site: Site) -> Iterator[Finding]:
    """Find truncated conda records."""
    for path in sorted((site.environment.prefix / "conda-meta").glob("*.json")):
        try:
            json.loads(path.read_text(encoding="utf-8"))["name"]
        except (OSError, ValueError, KeyError, TypeError):
            name = path.stem.rsplit("-", 2)[0]
            steps = (f"rm {path}; conda install --force-reinstall {name}",)
            yield Finding("error", f"conda's record of {name} is damaged", "", (str(path),), steps)
