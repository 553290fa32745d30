"""Do NVIDIA GPUs report heat, memory errors or driver faults?"""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.diagnose.finding import Finding, of_cause
from gpuforge.diagnose.site import Site
from gpuforge.facts import Reading
from gpuforge.probe import Output

SUMMARY = "NVIDIA GPUs report no throttling, ECC errors or Xid errors"

CAUSES = ("power_thermal_throttle", "ecc_uncorrectable", "gpu_fell_off_bus", "xid_error_other")
SEVERE = {"critical": "error", "error": "error", "warning": "warning"}


def check(site: Site) -> Iterator[Finding]:
    """Yield what the driver's report and the kernel log show."""
    if not any(device.vendor == "nvidia" for device in site.machine.devices):
        yield Finding("skipped", "no NVIDIA GPU is available")
        return
    outputs = (
        *site.probe.outputs("nvidia-smi", ["-q", "-d", "PERFORMANCE,ECC,ROW_REMAPPER"]),
        *((site.probe.run(["dmesg"]),) if site.live else ()),
    )
    text = "\n".join(filter(None, map(_text, outputs)))
    if not text:
        state = "unknown" if site.live else "skipped"
        yield Finding(state, "neither nvidia-smi nor the kernel log can be read")  # type: ignore[arg-type]
        return
    from gpuforge.diagnose.explanation import explain
    from gpuforge.diagnose.known_error import known_error

    choices = {cause: known_error(cause) for cause in CAUSES}
    matches = [m for m in explain(text, errors=choices).matches if m.confidence >= 0.5]
    for match in matches:
        evidence = tuple(line.text for line in match.evidence)
        yield of_cause(match.cause, SEVERE[match.severity], evidence=evidence)  # type: ignore[arg-type]
    if not matches:
        yield Finding("ok", "no throttling, ECC errors or Xid errors are reported")


def _text(output: Reading[Output]) -> str:
    """Return the output of a tool; of the kernel log only NVIDIA's lines."""
    if not isinstance(output, Output) or output.status:
        return ""
    if "dmesg" in output.source:
        return "\n".join(line for line in output.stdout.splitlines() if "NVRM" in line)
    return output.stdout
