"""The parsed output of a vendor's tool, and how it is added to what a detector saw."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gpuforge import registry
from gpuforge.detect.notation import Facts, kept, lines_of, word
from gpuforge.detect.seen import Seen, Sighting
from gpuforge.facts import Driver, Toolkit, Vendor, VendorFailure
from gpuforge.probe import Output


@dataclass
class Report:
    """The GPUs of one output, and the facts they share.

    Attributes
    ----------
    devices : facts of each GPU
    driver, runtime : versions of the vendor's driver and runtime
    error : kind and message of the error, if any
    trust : as `Sighting.trust`
    """

    devices: list[Facts] = field(default_factory=list)
    driver: str | None = None
    runtime: str | None = None
    error: tuple[str, str] | None = None
    trust: int = 0


@dataclass(frozen=True)
class Teller:
    """How to interpret a vendor's tools: names of the vendor, its driver and its runtime.

    Attributes
    ----------
    always_runs : whether a working driver implies the runtime even if no version is shown
    speech : what valid output contains; text without any of it is garbage
    """

    vendor: Vendor
    driver: str
    runtime: str
    always_runs: bool = False
    speech: str = r"GPU|Device|Driver|Agent|[Vv]ersion|HSA|ROC[mk]|AMD|Intel|sycl|opencl|[\]}] *$"

    def take(
        self, seen: Seen, output: Output, parse: Callable[[str], Report], *normal: str
    ) -> bool:
        """Add one output; return whether it showed GPUs.

        Parameters
        ----------
        normal
            Kinds of errors that are expected on this machine and so not reported.
        """
        report = parse(output.stdout)
        text = f"{output.stdout}\n{output.stderr}"
        if not report.devices:
            report.error = report.error or first_error(text, self.vendor, passing_over=normal)
        if not report.devices and report.error is None and not re.search(NOT_INSTALLED, text, re.M):
            words = word((output.stderr or output.stdout).strip().partition("\n")[0]) or ""
            if output.status:
                said = f"{output.source}: status {output.status}: {words[:200]}"
                report.error = ("tool_failed", said)
            elif words and not re.search(self.speech, text):
                said = f"{output.source} is not output of the tool: {words[:200]}"
                report.error = ("tool_failed", said)
        return self.add(seen, report, output.source)

    def add(self, seen: Seen, report: Report, route: str) -> bool:
        """Add a report; return whether it showed GPUs."""
        toolkit = Toolkit(self.runtime, report.runtime) if report.runtime else None
        if toolkit:
            seen.toolkits.append(toolkit)
        elif self.always_runs and report.driver:
            toolkit = Toolkit(self.runtime)
        common = kept(
            driver=Driver(self.driver, report.driver) if report.driver else None,
            runtimes=(toolkit,) if toolkit else None,
        )
        if report.error:
            seen.failures.append(VendorFailure(self.vendor, *report.error))
        if self.always_runs and report.driver and not (report.devices or report.error):
            seen.sightings.append(Sighting(self.vendor, route, common, everywhere=True))
        devices = ({**common, **facts} for facts in report.devices)
        return seen.add(self.vendor, route, devices, trust=report.trust)


NOT_INSTALLED = r"command not found|not recognized as (an internal|the name)|: not found$"


def first_error(
    text: str, vendor: Vendor, only: str = "", passing_over: Sequence[str] = ()
) -> tuple[str, str] | None:
    """Return kind and line of the most specific error of a vendor's tools in `text`, or None.

    Parameters
    ----------
    only
        The only kind to look for; empty for any.
    passing_over
        Kinds to ignore.
    """
    text = "\n".join(lines_of(text))
    for error in registry.table(__file__, "tool_errors")[vendor]:
        match = re.search(error["pattern"], text, re.I)
        if match and only in ("", error["kind"]) and error["kind"] not in passing_over:
            start = text.rfind("\n", 0, match.start()) + 1
            line = word(text[start : start + 300].partition("\n")[0])
            return error["kind"], line or error["kind"]
    return None
