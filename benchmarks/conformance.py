"""Whether offloaded functions pinned to a library pass the tests of the Python array API standard.

usage: conformance.py --tests PATH [--backends numpy,torch,jax] [--max-examples N] [--only EXPR]
                      [--output FILE]

PATH is a checkout of https://github.com/data-apis/array-api-tests with its submodule, whose
requirements are installed. Every function of NumPy and every operator that the suite calls is an
offloaded call; the arrays in between are NumPy's. The suite is run for plain NumPy first: what
fails there is NumPy's own way. What fails on a library only is a failure; there must be none
(status 1 if there is). The suite draws its values by chance: a test that fails on a library only
is tried once more in plain NumPy, with many more examples. A test that ends its process counts as
failed; the others go on in a new process.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

SECOND_LOOK_EXAMPLES = 500
HERE = Path(__file__).parent
RESULTS = HERE / "results" / "conformance.json"
MODULE = "conformance.namespace"


def run_suite(
    backend: str, chosen: argparse.Namespace, tests: tuple[str, ...] = ("array_api_tests",)
) -> dict[str, Any]:
    """Return outcome and message of each test, and the calls that were made where."""
    outcomes: dict[str, dict[str, Any]] = {}
    calls: Counter[str] = Counter()
    for _ in range(chosen.processes):
        lines, status = run_once(backend, chosen, tests, sorted(outcomes))
        begun = [line["test"] for line in lines if "test" in line]
        outcomes |= {line["test"]: line for line in lines if "outcome" in line}
        for line in lines:
            calls.update(line.get("calls", {}))
        if status in (0, 1) or not begun:
            break
        last = {"outcome": "failed", "message": f"ended the process with status {status}"}
        outcomes[begun[-1]] = {"test": begun[-1], **last}
    return {"outcomes": outcomes, "calls": dict(calls)}


def run_once(
    backend: str, chosen: argparse.Namespace, tests: tuple[str, ...], done: list[str]
) -> tuple[list[dict[str, Any]], int]:
    """Run the tests that are not done in a process, and return what it told."""
    with tempfile.TemporaryDirectory() as home:
        output, skips = Path(home, "output"), Path(home, "skips")
        output.touch()
        skips.write_text("".join(f"{name}\n" for name in done))
        environ = {
            **os.environ,
            "HOME": home,
            "XDG_CACHE_HOME": home,
            "JAX_PLATFORMS": os.environ.get("JAX_PLATFORMS", "cpu"),
            "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
            "ARRAY_API_TESTS_MODULE": MODULE,
            "CONFORMANCE_BACKEND": backend,
            "CONFORMANCE_OUTPUT": str(output),
        }
        command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider"]
        command += ["-p", "conformance.plugin", "--derandomize", "--disable-deadline"]
        command += ["--max-examples", str(chosen.max_examples), "--tb=no", "-W", "ignore"]
        command += ["--skips-file", str(skips)] if done else []
        command += ["-k", chosen.only] if chosen.only else []
        done_now = subprocess.run([*command, *tests], cwd=chosen.tests, env=environ)
        lines = [json.loads(line) for line in output.read_text().splitlines()]
    return lines, done_now.returncode


def failed(results: dict[str, Any]) -> dict[str, str]:
    """Return the tests that failed, each with the message."""
    return {
        name: line["message"]
        for name, line in results["outcomes"].items()
        if line["outcome"] == "failed"
    }


def also_numpys(
    found: dict[str, Any], expected: dict[str, str], chosen: argparse.Namespace
) -> dict[str, str]:
    """Return those failures of the libraries that plain NumPy has too, with other examples."""
    names = {name for results in found.values() for name in failed(results)} - set(expected)
    if not names:
        return {}
    many = argparse.Namespace(**{**vars(chosen), "max_examples": SECOND_LOOK_EXAMPLES, "only": ""})
    return failed(run_suite("plain", many, tuple(sorted(names))))


def summary(results: dict[str, Any], expected: dict[str, str]) -> dict[str, Any]:
    """Return counts, and the failures that plain NumPy has not."""
    own = {name: text for name, text in failed(results).items() if name not in expected}
    counts = Counter(line["outcome"] for line in results["outcomes"].values())
    return {"tests": dict(counts), "calls": results["calls"], "failures": own}


def main() -> int:
    """Run the suite for plain NumPy and for each library; say what fails on these only."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tests", help="a checkout of array-api-tests")
    parser.add_argument("--backends", default="numpy,torch,jax")
    parser.add_argument("--max-examples", type=int, default=20)
    parser.add_argument("--only", default="", help="an expression of pytest's -k")
    parser.add_argument("--processes", type=int, default=20, help="at most, for each library")
    parser.add_argument("--output", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    if chosen.tests is None:
        print("give --tests PATH, a checkout of array-api-tests", file=sys.stderr)
        return 3
    plain = run_suite("plain", chosen)
    expected = failed(plain)
    backends = {name: run_suite(name, chosen) for name in chosen.backends.split(",")}
    expected |= also_numpys(backends, expected, chosen)
    found = {name: summary(results, expected) for name, results in backends.items()}
    for name, one in found.items():
        print(f"{name}: {one['tests']}, calls {one['calls']}, {len(one['failures'])} of its own")
        for test, message in one["failures"].items():
            print(f"  {test}\n    {message}")
    write(chosen, plain, expected, found)
    return 1 if any(one["failures"] for one in found.values()) else 0


def write(
    chosen: argparse.Namespace,
    plain: dict[str, Any],
    expected: dict[str, str],
    found: dict[str, Any],
) -> None:
    """Write the results, with what they were got with."""
    versions = {name: version(name) for name in ("numpy", *found)}
    document = {
        "schema_version": 1,
        "python": platform.python_version(),
        "versions": versions,
        "max_examples": chosen.max_examples,
        "only": chosen.only,
        "plain": {"tests": summary(plain, {})["tests"], "failures": sorted(expected)},
        "backends": found,
    }
    chosen.output.parent.mkdir(parents=True, exist_ok=True)
    chosen.output.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
