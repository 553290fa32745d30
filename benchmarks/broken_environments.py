"""Does doctor name what is broken, and do its repairs and their undo do no harm?

usage: python benchmarks/broken_environments.py [--named] [--no-kill] [NAME ...]    (a checkout)

Each environment of ``tests/diagnose/broken.py`` is built with real packages, broken, diagnosed,
repaired where a repair is offered, and put back; then repaired again by a gpuforge that is killed.
Packages come from pip's configured index. ``--named``: only whether doctor names the problem;
``--no-kill``: no repair is killed. With names, the results of the others stay as they are.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.diagnose.broken import BROKEN, Broken  # noqa: E402
from tests.diagnose.environments import Environment, make_wheel  # noqa: E402

# Runs the command line with the machine of an environment, which may have a GPU that is not here.
MACHINE = """
from tests.diagnose.broken import BROKEN
import gpuforge.diagnose.site
machine = next(one.machine for one in BROKEN if one.name == sys.argv[1])
gpuforge.diagnose.site.read_machine = lambda probe: machine
"""
DOCTOR = """
from gpuforge.__main__ import main
sys.exit(main(sys.argv[2:]))
"""
HIDDEN = ("VIRTUAL_ENV", "CONDA", "PYTHON", "LD_LIB", "PIP_CACHE")
HERE = {name: value for name, value in os.environ.items() if not name.startswith(HIDDEN)}


class Bases:
    """Environments with packages installed, made once for each set of requirements."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def get(self, *steps: tuple[str, ...]) -> Path:
        """Return the environment with `steps` installed one after the other, the first resolved."""
        key = hashlib.sha256(repr(steps).encode()).hexdigest()[:12]
        prefix = self._home / key
        if not prefix.exists():
            subprocess.run([sys.executable, "-m", "venv", str(prefix)], check=True)
            for number, packages in enumerate(filter(None, steps)):
                how = ("--no-deps",) if number else ()
                argv = [prefix / "bin" / "python", "-m", "pip", "install", "-q", *how, *packages]
                subprocess.run(argv, check=True, env=HERE, stderr=subprocess.DEVNULL)
        return prefix


class Subject:
    """A broken environment in a folder of its own, and what can be asked of it."""

    def __init__(self, one: Broken, bases: Bases, folder: Path) -> None:
        self.one, self.folder = one, folder
        self.environment = Environment(bases.get(one.packages, one.over), folder / "venv")
        index = folder / "index"
        index.mkdir()
        names = {"prefix": str(self.environment.prefix), "beside": str(folder)}
        self.environ = {
            **HERE,
            "VIRTUAL_ENV": str(self.environment.prefix),
            "PIP_CACHE_DIR": str(folder / "pip-cache"),
            "XDG_DATA_HOME": str(folder / "data"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            **{name: text.format(**names) for name, text in one.variables.items()},
        }
        if one.made:
            self.environ |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index)}
        shelf = folder / "shelf"
        shelf.mkdir()
        for name, version, requires in one.made:
            self.environment.add(make_wheel(shelf, name, version, requires, one.files.get(name)))
        for name, version, requires in one.offered:
            make_wheel(index, name, version, requires, one.files.get(name))
        if one.breaks:
            with self._environ():
                one.breaks(self.environment)

    @contextmanager
    def _environ(self) -> Iterator[None]:
        before = dict(os.environ)
        os.environ.update(self.environ)
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)

    def doctor(self, *arguments: str) -> subprocess.Popen[str]:
        """Start doctor; the checkout is found first, and not through a variable it would see."""
        code = f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / 'src')!r}]\n"
        code += (MACHINE if self.one.machine else "") + DOCTOR
        argv = [sys.executable, "-P", "-c", code, self.one.name, "doctor", *arguments]
        work = self.folder if self.folder.exists() else Path("/")
        return subprocess.Popen(argv, cwd=work, env=self.environ, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip

    def asked(self, *arguments: str) -> dict[str, Any]:
        process = self.doctor("--json", *arguments)
        out, err = process.communicate()
        try:
            found: dict[str, Any] = json.loads(out)
        except ValueError:
            found = {"failed": err.strip()[-400:], "findings": [], "repairs": []}
        return found

    def state(self) -> tuple[set[str], set[str]]:
        """Return the lines of ``pip check`` and the modules that import."""
        python = str(self.environment.prefix / "bin" / "python")
        environ = {k: v for k, v in self.environ.items() if k != "PYTHONPATH"}

        def run(*argv: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run([python, "-P", *argv], env=environ, text=True,
                                  capture_output=True, cwd="/")  # fmt: skip

        lines = set(run("-m", "pip", "check").stdout.splitlines())
        lines = {line for line in lines if "No broken" not in line}
        return lines, {m for m in self.one.imports if run("-c", f"import {m}").returncode == 0}

    def freeze(self) -> str:
        argv = [str(self.environment.prefix / "bin" / "python"), "-m", "pip", "freeze", "--all"]
        return subprocess.run(argv, env=self.environ, capture_output=True, text=True).stdout

    def hashes(self) -> dict[str, str]:
        found = self.environment.hashes() if self.environment.prefix.exists() else {}
        return {path: digest for path, digest in found.items() if "__pycache__" not in path}


def judge(subject: Subject, chance: random.Random, *, repair: bool) -> dict[str, Any]:
    """Return what became of one environment."""
    one = subject.one
    found = subject.asked()
    bad = [f for f in found["findings"] if f["state"] in ("error", "warning", "crashed")]
    texts = [f"{f['cause']} {f['message']} {' '.join(f['evidence'])}" for f in bad]
    named = any(fault in text for fault in one.at_fault for text in texts)
    row: dict[str, Any] = {"real": one.is_real, "named": named, "found": texts}
    row |= {"failed": found["failed"]} if "failed" in found else {}
    offered = [f["check"] for f in bad if f["repair"]]
    if not repair or not offered or not subject.environment.prefix.exists():
        return row | {"offered": bool(offered) if repair else None}
    before, freeze, (broken, imports) = subject.hashes(), subject.freeze(), subject.state()
    started = time.monotonic()
    done = subject.asked(*dict.fromkeys(offered), "--fix", "--yes")
    took = time.monotonic() - started
    outcomes = [(r["outcome"], r["reason"][-300:]) for r in done["repairs"]]
    now_broken, now_imports = subject.state()
    row |= {
        "offered": True,
        "outcomes": outcomes,
        "newly_broken": sorted(now_broken - broken),
        "imports_lost": sorted(imports - now_imports),
        "imports_won": sorted(now_imports - imports),
        "settled": not any(
            fault in f"{f['cause']} {f['message']} {' '.join(f['evidence'])}"
            for f in done["findings"] if f["state"] in ("error", "warning")
            for fault in one.at_fault
        ),
    }  # fmt: skip
    for repair in reversed([r for r in done["repairs"] if r["outcome"] == "repaired"]):
        subject.asked("--undo", repair["undo"])
    row["undone"] = subject.hashes() == before and subject.freeze() == freeze
    kills = 0 if "--no-kill" in sys.argv else 1 if one.is_real else 2
    moments = [chance.uniform(0.3, took) for _ in range(kills)]
    killed = [_killed(subject, offered, moment, before, freeze) for moment in moments]
    return row | {"undone_after_kill": killed}


def _killed(
    subject: Subject, offered: list[str], after: float, before: dict[str, str], freeze: str
) -> bool:
    """Return whether all is as before once a repair was killed and taken back."""
    process = subject.doctor(*dict.fromkeys(offered), "--fix", "--yes")
    try:
        process.communicate(timeout=after)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    records = subject.asked("--undo", "list").get("records", [])
    for record in reversed([r for r in records if r["state"] != "undone"]):
        subject.asked("--undo", record["id"])
    return subject.hashes() == before and subject.freeze() == freeze


def main() -> None:
    options = [argument for argument in sys.argv[1:] if argument.startswith("--")]
    names = [argument for argument in sys.argv[1:] if argument not in options]
    target = Path(__file__).parent / "results" / "broken_environments.json"
    rows: dict[str, dict[str, Any]] = {}
    if names and target.exists():
        rows = json.loads(target.read_text())["environments"]
    chance = random.Random(12)
    with tempfile.TemporaryDirectory(dir=os.environ.get("BROKEN_FOLDER")) as text:
        home = Path(text)
        bases = Bases(Path(os.environ.get("BROKEN_BASES", home / "bases")))
        for one in sorted(BROKEN, key=lambda one: one.is_real):
            if names and one.name not in names:
                continue
            folder = home / one.name
            folder.mkdir()
            started = time.monotonic()
            subject = Subject(one, bases, folder)
            row = judge(subject, chance, repair="--named" not in options)
            row["seconds"] = round(time.monotonic() - started, 1)
            print(one.name, json.dumps(row), flush=True)
            subprocess.run(["chmod", "-R", "u+w", str(folder)], check=True)
            shutil.rmtree(folder)
            rows[one.name] = json.loads(json.dumps(row).replace(text, "FOLDER"))
            result = {"summary": summary(rows), "environments": rows}
            target.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(summary(rows), indent=1))


def summary(rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    offered = [row for row in rows.values() if "outcomes" in row]
    kills = [good for row in offered for good in row["undone_after_kill"]]
    return {
        "broken": len(rows),
        "of real packages": sum(row["real"] for row in rows.values()),
        "named by default": sum(row["named"] for row in rows.values()),
        "not named": [name for name, row in rows.items() if not row["named"]],
        "offered repairs made": len(offered),
        "repaired": sum(any(o == "repaired" for o, _ in row["outcomes"]) for row in offered),
        "requirements or imports lost": [
            name for name, row in rows.items() if row.get("newly_broken") or row.get("imports_lost")
        ],
        "not undone exactly": [n for n, row in rows.items() if row.get("undone") is False],
        "undone after a kill": f"{sum(kills)} of {len(kills)}",
    }


if __name__ == "__main__":
    main()
