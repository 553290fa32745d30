"""A GPU that throttles its clock.

Reports a throttle reason (heat, the power supply, a hardware slowdown) that was active for at least
a fifth of the last minute, or for all of the last ten seconds. A busy GPU normally runs at its
power limit, so that reason is reported only if the clock is more than 15 % below its highest; and
not of an idle GPU, which lowers its clock itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from gpuforge.monitor.anomaly import Anomaly
from gpuforge.monitor.series import Subject

SECONDS = 60.0
SHARE = 0.2
UNBROKEN_SECONDS = 10.0
CLOCK_SHARE, BUSY = 0.85, 0.05
POWER_LIMIT = "power cap"
STEPS = {
    "temperature": "check the fans, the airflow and the room temperature",
    "power": "check the power supply and the power limit, for example with nvidia-smi -q -d POWER",
    "": "check the reason with the vendor's tool, for example nvidia-smi -q -d PERFORMANCE",
}


def find(subjects: Sequence[Subject]) -> Iterator[Anomaly]:
    """Yield the GPUs that are throttled, one anomaly per reason."""
    for subject in subjects:
        for reason, _ in subject.starting("throttle_reasons:"):
            held = subject.recent(f"throttle_reasons:{reason}", SECONDS)
            clocks = subject.recent("core_clock_hertz", SECONDS)
            highest = subject.last("core_clock_max_hertz")
            now = subject.recent(f"throttle_reasons:{reason}", UNBROKEN_SECONDS)
            if not held or (fmean(held) < SHARE and not min(now, default=0.0)):
                continue
            share = fmean(clocks) / highest if clocks and highest else None
            idle = fmean(subject.recent("utilization_ratio", SECONDS) or (1.0,)) < BUSY
            if reason == POWER_LIMIT and (idle or share is None or share >= CLOCK_SHARE):
                continue
            told = f", its clock at {100 * share:.0f} % of the highest" if share is not None else ""
            step = next(step for word, step in STEPS.items() if word in reason)
            yield Anomaly(
                "throttling", subject.name, "warning",
                f"slowed down by {reason} for {100 * fmean(held):.0f} % of the last minute"
                f"{told}",
                step,
            )  # fmt: skip
