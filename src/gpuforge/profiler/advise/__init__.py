"""Suggestions on how to make a program faster, found in its profile.

Each rule in ``rules`` looks for one problem. A suggestion has measurements as evidence and an upper
bound of the gain.
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
"""Suggestions with a smaller bound (share of the wall time) or fewer measurements are dropped."""


def suggestions(profile: Profile) -> list[Suggestion]:
    """Return suggestions for the program of `profile`, largest possible gain first.

    Returns
    -------
    list of Suggestion
        Empty if no rule finds anything or the profile has too few measurements. Rules that cannot
        be loaded are listed first, as suggestions without a bound.
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
