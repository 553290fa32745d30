"""What the rules look at: a profile, gone through once."""

from __future__ import annotations

from collections.abc import Sequence

from gpuforge.profiler.advise.suggestion import Suggestion
from gpuforge.profiler.model import Profile, Span


class Facts:
    """A profile as the rules see it."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.spans = profile.spans

    def suggest(
        self, title: str, evidence: Sequence[str], bound_ns: float, advice: str, samples: int,
        at: Span | None = None, check: str = "",
    ) -> Suggestion:  # fmt: skip
        """Return a suggestion whose bound is never more than the wall time."""
        bound = max(0.0, min(bound_ns, self.profile.wall_ns))
        said = at.attributes if at else {}
        return Suggestion(
            "", title, list(evidence), bound / 1e9, bound / max(self.profile.wall_ns, 1), advice,
            check, str(said.get("file", "")), int(said.get("line", 0)), samples,
        )  # fmt: skip
