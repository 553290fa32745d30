"""``gpuforge report``: render a session file as text or in the format of another tool."""

from __future__ import annotations

import argparse
from itertools import count
from pathlib import Path
from types import ModuleType

from gpuforge.cli import render
from gpuforge.cli.main import FINE, NOTHING
from gpuforge.errors import UnknownName, WorkloadError
from gpuforge.profiler import formats, session_file
from gpuforge.profiler.model import Profile

SUMMARY = "show a profile: where the time went and what to change"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    rows = [(name, formats.module(name).SUMMARY) for name in formats.names()]
    parser.epilog = "formats:\n" + render.table(rows, indent="  ")
    parser.add_argument("file", metavar="FILE", help="a session file")
    parser.add_argument(
        "-o",
        dest="output",
        metavar="FILE",
        help="write to FILE, or to standard output for '-' (the default, except for markdown)",
    )
    parser.add_argument(
        "--format",
        metavar="NAME",
        help="one of the formats below (default: chosen by the suffix of FILE, else text)",
    )
    parser.add_argument(
        "--json", dest="format", action="store_const", const="json", help="short for --format json"
    )


def run(arguments: argparse.Namespace) -> int:
    """Read, render, print or write."""
    name = arguments.format or _by_suffix(arguments.output)
    module = formats.module(name)
    profile = session_file.read(arguments.file)
    content = formats.render(profile, name)
    written = _write(arguments.output, content, module, profile)
    if name != "text" or written:
        _note(profile, module)
    if written:
        render.message(f"wrote {written}")
    if not len(profile.spans):
        render.message(f"nothing was recorded: {arguments.file!r} has no spans")
        return NOTHING
    return FINE


def _by_suffix(output: str | None) -> str:
    """Return the format whose suffix matches the name of the output; the longest match wins.

    Raises
    ------
    UnknownName
        If the name has a suffix that no format uses.
    """
    ends = {name: formats.module(name).SUFFIX for name in formats.names()}
    fitting = [name for name, end in ends.items() if output and output.endswith(end)]
    if output and not fitting and (suffix := Path(output).suffix):
        raise UnknownName(
            f"gpuforge report: no format uses the suffix {suffix!r}",
            hint="name the format with --format; 'gpuforge report --help' lists them",
        )
    return max(fitting, key=lambda name: len(ends[name]), default="text")


def _note(profile: Profile, module: ModuleType) -> None:
    """Print notes on what the output does not show."""
    if not profile.complete:
        render.message("note: the recording ended early; what was written before that is shown")
    most = getattr(module, "MOST_SPANS", len(profile.spans))
    if len(profile.spans) > most:
        render.message(
            f"note: only the {most:,} longest of {len(profile.spans):,} spans are written, "
            "with the spans that contain them"
        )


def _write(output: str | None, content: str, module: ModuleType, profile: Profile) -> Path | None:
    """Print the content, or write it and return the path."""
    keeps = hasattr(module, "default_path")
    if output == "-" or (output is None and not keeps):
        render.data(content, utf8=module.SUFFIX != ".txt")
        return None
    text = content if content.endswith("\n") else content + "\n"
    path = module.default_path(profile) if output is None else Path(output)
    if path.is_dir():
        raise WorkloadError(f"{str(path)!r} is a folder", hint="name a file in it with -o")
    if not keeps:
        formats.write(path, text)
        return path
    try:
        return _write_new(path, text, numbered=output is None)
    except FileExistsError:
        raise WorkloadError(
            f"{str(path)!r} already exists and may have been edited; it was not overwritten",
            hint="choose another file with -o",
        ) from None
    except OSError as error:
        raise WorkloadError(
            f"{str(path)!r} cannot be written: {error.strerror}", hint="choose another file with -o"
        ) from None


def _write_new(path: Path, text: str, *, numbered: bool) -> Path:
    """Create a file; if it exists and `numbered` is true, create one with a number in its name."""
    if numbered:
        path.parent.mkdir(parents=True, exist_ok=True)
    for number in count(1):
        found = path if number == 1 else path.with_stem(f"{path.stem}-{number}")
        try:
            file = open(found, "x", encoding="utf-8", newline="\n")  # noqa: SIM115
        except FileExistsError:
            if not numbered:
                raise
        else:
            break
    try:
        with file:
            file.write(text)
    except OSError:
        found.unlink()
        raise
    return found
