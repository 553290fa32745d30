"""Write the table of docs/suggestions.md from the rules; ``--print`` only shows the page."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

from gpuforge import registry
from gpuforge.profiler.advise import FEWEST_SAMPLES, RULES

PAGE = Path(__file__).parent / "suggestions.md"
BEGIN, END = "<!-- rules -->\n", "<!-- end of the rules -->\n"


def table() -> str:
    """Return one row for each rule: what it looks for, its bound, its samples, its source."""
    rows = ["| rule | it speaks when | the most that can be gained | measurements | from |"]
    rows.append("|---|---|---|---|---|")
    loaded = registry.load(RULES)
    assert not loaded.failures, loaded.failures
    for name, rule in loaded.modules.items():
        paragraphs = [" ".join(p.split()) for p in inspect.getdoc(rule).split("\n\n")]
        bound = next(p for p in paragraphs if p.startswith("Bound: ")).removeprefix("Bound: ")
        fewest = getattr(rule, "SAMPLES", FEWEST_SAMPLES)
        rows.append(
            f"| `{name}` | {paragraphs[0]} | {bound} | {fewest} | [source]({rule.SOURCE}) |"
        )
    return "\n".join(rows) + "\n"


def page() -> str:
    """Return the page with the table as the rules are now."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


if __name__ == "__main__":
    if "--print" in sys.argv:
        sys.stdout.write(page())
    else:
        PAGE.write_text(page(), encoding="utf-8")
