"""How often is the first cause right? On a folder of labelled reports, and with each left out.

usage: python benchmarks/explain.py CORPUS/errors

Left out: for each report, every clue text is switched off that neither another report nor a sample
of the known-error files supports, so that words found in that report alone cannot help it.
"""

from __future__ import annotations

import collections
import json
import sys
import time
import tomllib
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from diagnose.known_errors_index import files
from gpuforge.diagnose import known_error
from gpuforge.diagnose.explanation import NAMED, Explanation, _fits, explain
from gpuforge.diagnose.log import Log
from gpuforge.diagnose.surroundings import Surroundings

HIGH = 0.8
Unit = tuple[str, int, str]


def read_cases(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "cases.jsonl").read_text("utf-8").splitlines()]


def is_right(case: dict, answer: Explanation) -> bool:
    named = answer.cause.cause if answer.cause else "none"
    first = answer.matches[0].cause if answer.matches else "none"
    return (named if case["cause"] == "none" else first) in (case["cause"], *case["also"])


def hits(text: str) -> set[Unit]:
    """Return the clue texts that fit a line of `text`."""
    log = Log(text)
    around = Surroundings(log)
    return {
        (cause, number, find)
        for cause, error in known_error.known_errors().items()
        for number, clue in enumerate(error.clues)
        for find in clue.find
        if any(_fits(clue, place, around) for place in log.places(find))
    }


def without(switched_off: set[Unit]) -> dict[str, known_error.KnownError]:
    """Return the known errors without some clue texts."""
    kept = {}
    for cause, error in known_error.known_errors().items():
        clues = [
            replace(clue, find=tuple(f for f in clue.find if (cause, n, f) not in switched_off))
            for n, clue in enumerate(error.clues)
        ]
        kept[cause] = replace(error, clues=tuple(clues))
    return kept


def leave_one_out(cases: list[dict]) -> list[bool]:
    found = [hits(case["text"]) for case in cases]
    counts = collections.Counter(unit for units in found for unit in units)
    samples: set[Unit] = set()
    for _, _, tests in files():
        for text in tomllib.loads(tests)["match"]:
            samples |= hits(text)
    right = []
    for case, units in zip(cases, found, strict=True):
        alone = {unit for unit in units if counts[unit] == 1 and unit not in samples}
        right.append(is_right(case, explain(case["text"], errors=without(alone))))
    return right


def main() -> None:
    cases = read_cases(Path(sys.argv[1]))
    explain("warm up")
    started = time.perf_counter()
    answers = [explain(case["text"]) for case in cases]
    elapsed = time.perf_counter() - started
    right = [is_right(case, answer) for case, answer in zip(cases, answers, strict=True)]
    bands: dict[str, list[bool]] = collections.defaultdict(list)
    for good, answer in zip(right, answers, strict=True):
        top = answer.matches[0].confidence if answer.matches else 0.0
        bands[f"{min(9, int(top * 10)) / 10:.1f}"].append(good)
    wrong_high = sum(
        not good and bool(a.matches) and a.matches[0].confidence > HIGH
        for good, a in zip(right, answers, strict=True)
    )
    healthy = [a for c, a in zip(cases, answers, strict=True) if c["cause"] == "none"]
    left_out = leave_one_out(cases)
    misses = [
        {"id": c["id"], "got": [(m.cause, m.confidence) for m in a.matches[:3]]}
        for c, a, good in zip(cases, answers, right, strict=True)
        if not good
    ]
    result = {
        "reports": len(cases),
        "right": sum(right),
        "right_left_out": sum(left_out),
        "wrong_above_0.8": wrong_high,
        "healthy": len(healthy),
        "healthy_named": sum(a.cause is not None for a in healthy),
        "seconds_per_report": elapsed / len(cases),
        "by_confidence": {band: [sum(v), len(v)] for band, v in sorted(bands.items())},
        "misses": misses,
        "misses_left_out": [c["id"] for c, g in zip(cases, left_out, strict=True) if not g],
    }
    folder = Path(__file__).parent / "results"
    folder.mkdir(exist_ok=True)
    (folder / "explain.json").write_text(json.dumps(result, indent=1) + "\n")
    print(f"first cause right      {sum(right)}/{len(cases)} = {sum(right) / len(cases):.1%}")
    print(f"  each report left out {sum(left_out)}/{len(cases)} = {sum(left_out) / len(cases):.1%}")
    print(f"wrong above {HIGH}        {wrong_high}/{len(cases)}")
    print(f"healthy reports named  {result['healthy_named']}/{len(healthy)} (at {NAMED} or more)")
    print(f"time per report        {1e3 * elapsed / len(cases):.2f} ms")
    print("confidence  right  of")
    for band, (good, total) in result["by_confidence"].items():
        print(f"{band:>10}  {good:>5}  {total}")
    for miss in misses:
        print("miss", miss["id"], miss["got"])
    print("missed when left out:", ", ".join(result["misses_left_out"]) or "none")


if __name__ == "__main__":
    main()
