"""Environments with the right framework builds for this hardware: plan, export, create, verify."""

from gpuforge.environment.advice import Recommendation, export, plan, profiles, recommend
from gpuforge.environment.fit import Fit
from gpuforge.environment.planning import Plan
from gpuforge.environment.profile import Profile

__all__ = ["Fit", "Plan", "Profile", "Recommendation", "export", "plan", "profiles", "recommend"]
