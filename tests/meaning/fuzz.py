"""``python -m tests.meaning.fuzz --backend torch --programs 2000 --seed 1``.

Random programs are run plain and offloaded; those that disagree are printed, made smaller. A
program whose own result hangs on last digits (a jump, a sum that cancels) is told apart by running
it plainly with those digits moved, and is counted as unsettled.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from tests.meaning.compare import compare
from tests.meaning.pattern import Offloading, Outcome, plain
from tests.meaning.program import Program, grow, shrink

NOISY_RUNS = 4


@dataclass
class Verdict:
    """What came of one program."""

    program: Program
    found: list[str] = field(default_factory=list)
    unsettled: bool = False
    ran: bool = False

    @property
    def refused(self) -> bool:
        """Whether the pinned backend was not used, and the call raised for that."""
        return any("BackendUnavailable" in line for line in self.found)


def judge(program: Program, mode: str) -> Verdict:
    """Run a program plain and offloaded, and say how they differ."""
    reference = program.run(plain)
    offloading = Offloading(mode)
    found = compare(reference, program.run(offloading))
    ran = any(name.startswith(mode) and calls for name, calls in offloading.calls().items())
    if not found:
        return Verdict(program, ran=ran)
    doubtful = hang_on_last_digits(program, reference)
    settled = [line for line in found if place(line) not in doubtful]
    return Verdict(program, found if settled else [], unsettled=not settled, ran=ran)


def hang_on_last_digits(program: Program, reference: list[Outcome]) -> set[str]:
    """Return the places of the outcome where other last digits matter in plain NumPy too."""
    found = compare(reference, program.run(plain))
    for k in range(NOISY_RUNS):
        found += compare(reference, program.run_with_noise(Random(k)))
    return {place(line) for line in found}


def place(line: str) -> str:
    """Return where a difference was found, and whether values or something else differ."""
    where, _, what = line.partition(": ")
    values = any(word in what for word in ("off by", "values differ", "other places", "->"))
    return f"{where.partition(' raises')[0]} {'values' if values else what}"


def fuzz(mode: str, programs: int, seed: int) -> Iterator[Verdict]:
    """Yield the verdict on each of `programs` programs."""
    for number in range(programs):
        yield judge(grow(seed * 1_000_000 + number), mode)


def smallest(verdict: Verdict, mode: str) -> Verdict:
    """Return the verdict on the program made smaller."""

    def differs(program: Program) -> bool:
        smaller = judge(program, mode)
        return bool(smaller.found) and smaller.refused == verdict.refused

    program = shrink(verdict.program, differs)
    return judge(program, mode)


def text_of(verdict: Verdict) -> str:
    given = "\n".join(f"  {a!r}" for a in verdict.program.run(plain)[0].given.args)
    found = "\n".join(f"  {line}" for line in verdict.found[:4])
    return (
        f"seed {verdict.program.seed}\n{verdict.program.source}{found}\narguments after:\n{given}\n"
    )


def run_here(options: argparse.Namespace) -> None:
    """Print a line of JSON before each program and one with its verdict."""
    shown = options.shown
    for number in range(options.child, options.programs):
        program = grow(options.seed * 1_000_000 + number)
        print(json.dumps({"number": number}), flush=True)
        verdict = judge(program, options.backend)
        text = ""
        if verdict.found and not verdict.refused and shown < options.show:
            shown += 1
            text = text_of(smallest(verdict, options.backend))
        kinds = [verdict.ran and "ran there", verdict.unsettled and "unsettled"]
        kinds += [bool(verdict.found) and ("refused" if verdict.refused else "disagree")]
        print(json.dumps({"kinds": [k for k in kinds if k], "text": text}), flush=True)


def run_apart(options: argparse.Namespace) -> Counter[str]:
    """Run the programs in a child, which is started again after one that ends it; print."""
    counts: Counter[str] = Counter()
    number = -1
    while number + 1 < options.programs:
        command = [sys.executable, "-m", "tests.meaning.fuzz", *sys.argv[1:]]
        command += ["--child", str(number + 1), "--shown", str(counts["disagree"])]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        for line in child.stdout:
            told = json.loads(line) if line.startswith("{") else {}
            number = told.get("number", number)
            counts.update(told.get("kinds", []))
            if told.get("text"):
                print(told["text"], flush=True)
        if child.wait():
            counts["ended the process"] += 1
            seed = options.seed * 1_000_000 + number
            print(f"seed {seed} ended the process: {child.returncode}\n{grow(seed).source}")
    return counts


def main() -> int:
    """Print what disagrees; status 1 if anything does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="torch", help="a backend, or free")
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=40, help="how many to make smaller and print")
    parser.add_argument("--only", type=int, help="the program of this seed alone")
    parser.add_argument("--child", type=int, default=-1, help=argparse.SUPPRESS)
    parser.add_argument("--shown", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only is not None:
        verdict = judge(grow(options.only), options.backend)
        print(text_of(verdict) if verdict.found else f"{verdict.program.source}agrees")
        return 0
    if options.child >= 0:
        run_here(options)
        return 0
    counts = run_apart(options)
    print(f"{options.programs} programs on {options.backend}: {dict(counts)}")
    return 1 if counts["disagree"] + counts["refused"] + counts["ended the process"] else 0


if __name__ == "__main__":
    sys.exit(main())
