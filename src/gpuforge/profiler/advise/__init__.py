"""What could be changed in a program to make it finish sooner, found in its profile.

Each rule of ``rules`` looks for one thing. What it suggests comes with what was measured and with
the most that could be gained, which is no promise.
"""

from gpuforge.profiler.advise.looking import suggestions
from gpuforge.profiler.advise.suggestion import Suggestion

__all__ = ["Suggestion", "suggestions"]
