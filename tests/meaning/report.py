"""``python -m tests.meaning.report``: which patterns differ, and which ran on the library.

Each mode runs in a process of its own, which is started again after a pattern that ends it.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from typing import Any

from tests.meaning.compare import compare, notes
from tests.meaning.pattern import Offloading, Pattern, all_patterns, plain

LIMIT_SECONDS = 20


def main() -> None:
    """Print the report of each mode."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mode", action="append", help="free, or a backend: torch, jax, numpy")
    parser.add_argument("--only", default="", help="patterns whose id contains this")
    parser.add_argument("--src", action="store_true", help="print the source of what differs")
    parser.add_argument("--notes", action="store_true", help="also warnings and messages")
    parser.add_argument("--stayed", action="store_true", help="also what did not run there")
    parser.add_argument("--child", type=int, default=-1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    chosen = [p for p in all_patterns() if options.only in p.id]
    modes = options.mode or ["free", "torch", "jax"]
    if options.child >= 0:
        run_all(modes[0], chosen[options.child :])
        return
    print(f"{len(chosen)} patterns")
    for mode in modes:
        report(mode, chosen, options)


def run_all(mode: str, chosen: list[Pattern]) -> None:
    """Print one line of JSON before and after each pattern."""
    out = os.fdopen(os.dup(1), "w")
    signal.signal(signal.SIGALRM, take_too_long)
    for pattern in chosen:
        out.write(json.dumps({"id": pattern.id}) + "\n")
        out.flush()
        signal.alarm(LIMIT_SECONDS)
        offloading = Offloading(mode)
        try:
            reference, other = pattern.run(plain), pattern.run(offloading)
            found, soft = compare(reference, other), notes(reference, other)
        except Exception as error:
            found, soft = [f"cannot be compared: {error!r}"], []
        signal.alarm(0)
        result = {"found": found, "notes": soft, "calls": offloading.calls()}
        out.write(json.dumps({"id": pattern.id, **result}) + "\n")
        out.flush()


def take_too_long(*_: Any) -> None:
    raise TimeoutError(f"takes longer than {LIMIT_SECONDS} s")


def results_of(mode: str, chosen: list[Pattern], only: str) -> dict[str, dict[str, Any]]:
    """Run the patterns in children; a pattern that ends its process differs."""
    results: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as home:
        while len(results) < len(chosen):
            command = [sys.executable, "-m", "tests.meaning.report", "--mode", mode]
            command += ["--only", only, "--child", str(len(results))]
            environ = {**os.environ, "HOME": home, "JAX_PLATFORMS": "cpu"}
            done = subprocess.run(command, stdout=subprocess.PIPE, env=environ, text=True)
            lines = [json.loads(line) for line in done.stdout.splitlines() if line[:1] == "{"]
            results |= {line["id"]: line for line in lines if "found" in line}
            if done.returncode:
                last = lines[-1]["id"] if lines else chosen[len(results)].id
                ended = f"ended the process with status {done.returncode}"
                results[last] = {"found": [ended], "notes": [], "calls": {}}
    return results


def report(mode: str, chosen: list[Pattern], options: argparse.Namespace) -> None:
    """Print what differs in one mode."""
    results = results_of(mode, chosen, options.only)
    different = {name: r for name, r in results.items() if r["found"]}
    refused = sum("BackendUnavailable" in " ".join(r["found"]) for r in different.values())
    print(f"\n== {mode}: {len(different)} of {len(chosen)} patterns differ, {refused} are refused")
    groups = Counter(name.partition(".")[0] for name in different)
    print("   " + ", ".join(f"{group} {count}" for group, count in sorted(groups.items())))
    for pattern in chosen:
        if pattern.id in different:
            found = different[pattern.id]["found"]
            more = f" (+{len(found) - 1})" if len(found) > 1 else ""
            print(f"   {pattern.id}: {found[0]}{more}")
            if options.src:
                print(textwrap.indent(inspect.getsource(pattern.function), " " * 8))
        for note in results[pattern.id]["notes"] if options.notes else []:
            print(f"   {pattern.id}, note: {note}")
    if mode != "free":
        print_share(mode, results, options.stayed)


def print_share(mode: str, results: dict[str, dict[str, Any]], names: bool) -> None:
    """Print how many patterns had a call that ran on the library."""
    counts = {name: r["calls"] for name, r in results.items()}
    ran = [n for n, c in counts.items() if any(k.startswith(mode) and v for k, v in c.items())]
    there = sum(v for c in counts.values() for k, v in c.items() if k.startswith(mode))
    every = sum(v for c in counts.values() for v in c.values())
    print(
        f"   ran on {mode}: {len(ran)} of {len(results)} patterns ({len(ran) / len(results):.0%})"
    )
    print(f"   calls counted there: {there} of {every}")
    if names:
        print("   stayed: " + " ".join(n for n in results if n not in ran))


if __name__ == "__main__":
    main()
