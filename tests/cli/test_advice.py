"""Every command that gpuforge advises is one that it takes: collected from what it prints.

Commands of gpuforge are parsed by the parser that would run them; installers' are run without
installing, or looked up. What is advised of each machine is collected on every recorded one.
"""

from __future__ import annotations

import argparse
import ast
import functools
import importlib
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuforge import registry, settings
from gpuforge.cli import main as cli
from gpuforge.cli.argument_parser import ArgumentParser
from gpuforge.environment.advice import format_names
from gpuforge.environment.profile import load_profiles
from gpuforge.errors import GpuForgeError
from gpuforge.installation import install_command
from gpuforge.profiler import formats

SOURCE = Path(cli.__file__).parents[1]
# Diagnose has tests of its own for the steps that it names.
TEXTS = [path for path in SOURCE.rglob("*.py") if "diagnose" not in path.parts]
TABLES = [SOURCE / "environment" / "failures.toml"]
PAGES = [SOURCE.parents[1] / "README.md", *sorted((SOURCE.parents[1] / "docs").glob("*.md"))]
# What stands for a word of the reader's.
WORDS = {
    "SCRIPT": "program.py", "FILE": "file", "FOLDER": "folder", "NAME": "nlp", "ID": "list",
    "CAUSE": "numpy_abi_mismatch", "COMMAND": "env", "DIR": "folder", "VALUE": "1",
    "PROGRAM": "p.py", "BASE": "a", "NEW": "b", "TEXT": "text",
}  # fmt: skip


def parsers(words: list[str]) -> argparse.ArgumentParser:
    """Return the parser that a command line of gpuforge goes to."""
    name = words[0] if words else ""
    if not name or name.startswith("-"):
        module = importlib.import_module("gpuforge.cli.overview")
    else:
        known = [module.replace("_", "-") for module in registry.names(cli.COMMANDS)]
        assert name in known, f"there is no command {name!r}"
        module = importlib.import_module(f"{cli.COMMANDS}.{name.replace('-', '_')}")
    parser = ArgumentParser(prog="gpuforge", exit_on_error=False)
    parser.add_argument("--verbose", action="store_true")
    module.add_arguments(parser)
    return parser


def parse(command: str) -> argparse.Namespace | None:
    """Parse a command line of gpuforge with the parser that would run it."""
    words = [WORDS.get(word.strip("[]"), word) for word in shlex.split(command, comments=True)]
    assert words[0] == "gpuforge"
    words = words[1:]
    if words[:1] in (["--version"], ["--help"], ["help"]) or "--help" in words:
        return None
    try:
        found = parsers(words).parse_args(words[1:] if words and words[0][0] != "-" else words)
    except GpuForgeError as error:
        raise AssertionError(f"{command!r}: {error}") from None
    _check_values(found)
    return found


def _check_values(found: argparse.Namespace) -> None:
    if getattr(found, "profile", None):
        assert found.profile in load_profiles(), found.profile
    if getattr(found, "framework", None):
        assert found.framework in ("pytorch", "tensorflow", "jax")
    if getattr(found, "format", None) and not hasattr(found, "against"):  # bench checks its own
        assert found.format in (*format_names(), *formats.names())


def commands_in(text: str) -> Iterator[str]:
    """Yield the command lines of gpuforge in quotes or backquotes; a bare group is a mention."""
    for quoted in re.findall(r"'(gpuforge [^'\n]+)'|`(gpuforge [^`\n]+)`", text):
        command = next(filter(None, quoted))
        mention = command.removeprefix("gpuforge ") in (
            "env", "config", "report", "diff", "NAME",
        )  # fmt: skip
        if not mention and not re.search(r"[{}|…]|\.\.\.|--python$", command):
            yield command


def strings_of(path: Path) -> Iterator[str]:
    """Yield the texts of a module that names commands; what is filled in stands for a name."""
    source = path.read_text(encoding="utf-8")
    if not re.search(r"['`]gpuforge ", source):
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            parts = (p.value if isinstance(p, ast.Constant) else "NAME" for p in node.values)
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@functools.cache
def advised() -> list[str]:
    found = {c for path in TEXTS for text in strings_of(path) for c in commands_in(text)}
    found |= {c for path in TABLES for c in commands_in(path.read_text(encoding="utf-8"))}
    for page in PAGES:
        found |= set(commands_in(page.read_text(encoding="utf-8")))
    # A flag filled in with nothing, or with a profile.
    return sorted(c.replace("createNAME", "create").replace("planNAME", "plan") for c in found)


@pytest.mark.parametrize("command", advised())
def test_an_advised_command_is_one_that_gpuforge_takes(command: str) -> None:
    parse(command)


def test_enough_commands_are_advised() -> None:
    assert len(advised()) > 25


def test_blocks_of_the_pages_are_commands() -> None:
    seen = 0
    for page in PAGES:
        for block in re.findall(r"```[a-z]*\n(.*?)```", page.read_text(encoding="utf-8"), re.S):
            for line in re.split(r"\n| && ", block):
                line = re.sub(r"^\$ ", "", line.split(" #")[0]).strip()
                if line.startswith("gpuforge ") and not re.search(r"[|\[<>;…(]|\.\.\.|  ", line):
                    parse(line)
                    seen += 1
    assert seen > 20


def test_flags_that_hints_name_belong_to_the_command_that_prints_them() -> None:
    """Each hint of ``env`` names flags of every sub-command that can print it."""
    actions = {"create": "", "fetch": "", "switch": " --framework jax"}
    hints = re.findall(r'^hint = "(.*)"$', TABLES[0].read_text(encoding="utf-8"), re.M)
    assert len(hints) > 5
    for hint in hints:
        for action, rest in actions.items():
            said = hint.replace("--path", "--wheelhouse") if action == "fetch" else hint
            for flag in re.findall(r"--[a-z-]+", said):
                if flag == "--channel" and action == "fetch":
                    continue  # conda is no installer of fetch, and its errors do not come there
                parse(f"gpuforge env {action}{rest} {flag} value")


def test_fetch_names_a_flag_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("GPUFORGE_CPU_ONLY", "1")
    status = cli.main(["env", "fetch", "--profile", "lightweight", "--framework-index", "default",
                       "--wheelhouse", str(file / "below"), "--index", "http://127.0.0.1:9/simple",
                       "--installer", "pip"])  # fmt: skip
    hint = capsys.readouterr().err.rpartition("hint: ")[2]
    assert status == 1
    for flag in re.findall(r"--[a-z-]+", hint):
        parse(f"gpuforge env fetch {flag} value")


def machines(corpus: Path) -> Iterator[Path]:
    for folder in sorted((corpus / "devices").iterdir()):
        if (folder / "expected.toml").is_file():
            yield folder


def test_what_plans_advise_of_recorded_machines_is_taken(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each Python, version, framework and flag that a plan advises leads to a plan."""
    tried: set[tuple[str, ...]] = set()
    for folder in list(machines(corpus))[::4]:
        for framework in ("pytorch", "tensorflow", "jax"):
            argv = ["env", "plan", "--profile", "lightweight", "--framework", framework,
                    "--snapshot", str(folder), "--python", "3.12"]  # fmt: skip
            cli.main(argv)
            said = capsys.readouterr()
            for command in commands_in(said.err):
                parse(command)
            for more in _advised_flags(said.err):
                key = (framework, *more, said.err)
                if key in tried:
                    continue
                tried.add(key)
                status = cli.main([*argv, *more])
                again = capsys.readouterr()
                assert status == 0, (folder.name, more, again.err)
    assert len(tried) > 3


def _advised_flags(said: str) -> Iterator[tuple[str, ...]]:
    for hint in re.findall(r"^hint: (.*)$", said, re.M):
        if found := re.match(r"choose Python (\S+) to use", hint):
            yield ("--python", found[1])
        elif found := re.match(r"choose (pytorch|tensorflow|jax) to use", hint):
            yield ("--framework", found[1])
        elif found := re.search(r"'gpuforge env plan (.*)'", hint):
            yield tuple(shlex.split(found[1]))


@pytest.mark.parametrize("flags", [[], ["--profile", "nlp"], ["--cpu-only"]])
def test_the_overview_leads_to_the_same_environment(
    flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(flags)
    said = capsys.readouterr().out
    found = [parse(command) for command in commands_in(said)]
    planned = [one for one in found if one is not None and getattr(one, "action", "")]
    assert planned
    for one in planned:
        assert one.profile == ("nlp" if "nlp" in flags else None)
        assert one.cpu_only == ("--cpu-only" in flags)


@pytest.mark.parametrize("extra", ["uv", "jax"])
def test_the_install_command_is_one_that_pip_takes(extra: str) -> None:
    """pip reads the folder, or the index, that is named; it installs nothing."""
    command = install_command(extra)
    words = shlex.split(command)
    assert "gpuforge[" in command or str(SOURCE.parents[1]) in command or extra in words[-1]
    folder = next((w.partition("[")[0] for w in words if Path(w.partition("[")[0]).is_dir()), "")
    if folder:
        project = (Path(folder) / "pyproject.toml").read_text(encoding="utf-8")
        assert re.search(rf"^{extra} = \[", project, re.M)
        assert 'name = "gpuforge"' in project
    if words[1:3] == ["-m", "pip"]:
        known = subprocess.run([*words[:3], words[3], "--help"], capture_output=True, text=True)
        assert known.returncode == 0
        assert "-e" not in words or "--editable" in known.stdout


def test_a_copy_from_an_index_and_one_from_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpuforge import installation

    monkeypatch.setattr(installation, "_folder", lambda: None)
    monkeypatch.setattr(installation, "_from_index", lambda: True)
    assert install_command("jax").endswith("'gpuforge[jax]'")
    monkeypatch.setattr(installation, "_from_index", lambda: False)
    assert install_command("jax").endswith(" jax")
    monkeypatch.setattr(installation, "find_spec", lambda name: None)
    assert install_command("jax").startswith("uv pip install --python ")


@pytest.mark.parametrize(
    ("setting", "value", "meant"),
    [("backend", "nunpy", "numpy"), ("backends", "numpy,torhc", "torch"), ("forbid", "jaxx", "jax"),
     ("device", "cudda", "cuda"), ("backend", "torhc:cuda", "torch")],
)  # fmt: skip
def test_a_misspelt_backend_is_refused_with_the_one_that_is_meant(
    setting: str, value: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["config", "set", setting, value]) == 2
    assert f"did you mean '{meant}'?" in capsys.readouterr().err
    assert not settings.user_file().exists()
    assert cli.main(["config", "set", "backend", "numpy"]) == 0


def test_verify_takes_the_active_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    active = tmp_path / "active"
    monkeypatch.setenv("VIRTUAL_ENV", str(active))
    assert cli.main(["env", "verify"]) == 1
    assert str(active) in capsys.readouterr().err
