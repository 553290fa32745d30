"""What could be changed in a program to make it finish sooner, found in its profile.

Each rule of ``rules`` looks for one thing. What it suggests comes with what was measured and with
the most that could be gained, which is no promise.
"""

from __future__ import annotations

from dataclasses import replace

from gpuforge import registry
from gpuforge.profiler.advise.facts import Facts
from gpuforge.profiler.advise.suggestion import Suggestion
from gpuforge.profiler.model import Profile

__all__ = ["Suggestion", "suggestions"]

RULES = "gpuforge.profiler.advise.rules"
SMALLEST_SHARE, FEWEST_SAMPLES = 0.03, 30
"""What could gain less of the wall time, or rests on fewer measurements, is not said."""


def suggestions(profile: Profile) -> list[Suggestion]:
    """Return what could be changed in the program of `profile`, the largest gain first.

    Returns
    -------
    list of Suggestion
        Empty where no rule finds anything, and where the profile holds too little to say it. A rule
        that cannot be loaded is named in the first ones, without a bound.
    """
    facts = Facts(profile)
    loaded = registry.load(RULES)
    broken = [
        Suggestion(failure.name, f"the rule cannot be loaded: {failure.reason}")
        for failure in loaded.failures
    ]
    found = [
        replace(suggestion, rule=name)
        for name, rule in loaded.modules.items()
        for suggestion in rule.look(facts)
        if suggestion.bound_share >= SMALLEST_SHARE
        and suggestion.samples >= getattr(rule, "SAMPLES", FEWEST_SAMPLES)
    ]
    return broken + sorted(found, key=lambda suggestion: -suggestion.bound_seconds)
