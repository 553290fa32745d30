"""Anomalies in what is monitored: what was seen, and what to do about it.

Each rule is a module of `gpuforge.monitor.anomalies` with ``find(subjects)``; its docstring says
when it reports an anomaly and when not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Literal

from gpuforge import registry
from gpuforge.monitor.series import Forecast, Subject

RULES = "gpuforge.monitor.anomalies"


@dataclass(frozen=True)
class Anomaly:
    """One anomaly.

    Attributes
    ----------
    rule : name of the rule that found it
    subject : what it concerns: ``GPU 0``, ``host``, ``process 4711``
    state : ``error`` if results or the device are at risk, else ``warning``
    reason : what was seen, with figures, in one sentence
    step : one thing to do about it
    forecast : when a limit will be reached, if that can be predicted
    """

    rule: str
    subject: str
    state: Literal["error", "warning"]
    reason: str
    step: str
    forecast: Forecast | None = None


def find_anomalies(
    subjects: Sequence[Subject], rules: Iterable[ModuleType] | None = None
) -> list[Anomaly]:
    """Return the anomalies that the rules find in the series of the last minutes, errors first.

    A rule that fails is reported as an anomaly itself, and does not stop the others.

    Parameters
    ----------
    subjects
        Everything that is monitored; devices are compared with each other.
    rules
        The rules to apply; all of `RULES` by default.
    """
    found: list[Anomaly] = []
    for rule in registry.load(RULES).modules.values() if rules is None else rules:
        name = rule.__name__.rpartition(".")[2]
        try:
            found += rule.find(subjects)
        except Exception as error:  # noqa: BLE001 - one rule's mistake must not hide the others
            reason = f"the rule failed: {type(error).__name__}: {error}"
            found.append(Anomaly(name, "gpuforge", "warning", reason, "gpuforge report-issue"))
    return sorted(found, key=lambda anomaly: (anomaly.state != "error", anomaly.subject))
