"""``gpuforge explain``: find the cause of an error text."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from dataclasses import asdict
from pathlib import Path

from gpuforge.cli import diagnosis_text, render
from gpuforge.cli.main import FINE, NOTHING
from gpuforge.diagnose import explain
from gpuforge.diagnose.known_error import causes, known_error
from gpuforge.diagnose.log import Log
from gpuforge.diagnose.surroundings import Surroundings
from gpuforge.errors import WorkloadError
from gpuforge.facts import Host, Machine

SUMMARY = "identify the cause of an error and show how to fix it"

PLATFORMS = {"win32": "windows", "darwin": "macos"}
READ_LIMIT_BYTES = 64 * 2**20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "subject",
        metavar="FILE|-|CAUSE|TEXT",
        nargs="?",
        default="-",
        help="a log file, '-' for standard input, a cause, or the error text in quotes",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--snapshot", metavar="DIR", help="the recorded machine the log comes from")
    parser.add_argument(
        "--here",
        action="store_true",
        help="the log comes from this machine: use its facts (the "
        "default where it shows an error and a path of your home, folder or environment)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Explain a log, or print what is known about a cause."""
    subject = arguments.subject
    if not subject.strip():
        raise WorkloadError("the text is empty", hint="name a file, '-' for stdin, or a text")
    if subject in causes() and not Path(subject).exists():
        return _page(subject, as_json=arguments.json)
    text = _read(subject)
    answer = explain(text, _machine(arguments))
    if answer.matches and not (arguments.snapshot or arguments.here) and _is_from_here(text):
        arguments.here = True
        answer = explain(text, _machine(arguments))
    if arguments.json:
        matches = [_document(asdict(match)) for match in answer.matches if answer.cause]
        render.document({"matches": matches})
    else:
        render.data(str(answer))
        if not answer.cause:
            render.message("next: 'gpuforge doctor' checks this machine and its packages")
    return FINE if answer.cause else NOTHING


# Fields that are not part of the JSON document's contract.
HIDDEN = ("source", "summary", "repaired_by")


def _document(match: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in match.items() if name not in HIDDEN}


def _page(cause: str, *, as_json: bool) -> int:
    error = known_error(cause)
    here = Machine("no_gpu", host=Host(platform=PLATFORMS.get(sys.platform, "linux")))
    steps = Surroundings(Log(""), here).steps(error.steps, error.area)
    if as_json:
        names = ("cause", "title", "area", "severity", "safe_fix", "summary", "source")
        render.document({**{n: getattr(error, n) for n in names}, "steps": steps})
    else:
        render.data(diagnosis_text.render_page(error, steps))
    return FINE


def _read(subject: str) -> str:
    from gpuforge.probe.files import text_of

    if subject == "-":
        if sys.stdin.isatty():
            render.message("reading the log from the terminal; end it with Ctrl-D")
        return text_of(sys.stdin.buffer.read(READ_LIMIT_BYTES))
    if _is_text(subject):
        return subject
    try:
        with open(subject, "rb") as file:
            return text_of(file.read(READ_LIMIT_BYTES))
    except OSError as error:
        raise WorkloadError(
            f"{subject} is neither a readable file nor a known cause: {error.strerror}",
            hint=_near(subject),
        ) from None


def _is_text(subject: str) -> bool:
    """Return whether an argument is the error text itself: it has whitespace and is no file."""
    if not any(map(str.isspace, subject)):
        return False
    try:
        return not Path(subject).exists()
    except (OSError, ValueError):  # too long for a path, or with a null character
        return True


def _near(subject: str) -> str:
    from gpuforge.errors import nearest

    found = nearest(subject, causes())
    listed = "list the causes: gpuforge doctor --list"
    return f"did you mean the cause {found!r}?" if found else listed


def _is_from_here(text: str) -> bool:
    """Return whether the text contains a path that is probably specific to this machine."""
    own = {Path.home(), Path(sys.prefix), Path(os.environ.get("VIRTUAL_ENV", "/"))}
    with contextlib.suppress(FileNotFoundError):  # the current folder was removed
        own.add(Path.cwd())
    # Folders such as /root, /app and /usr exist on many machines; deeper ones are specific.
    return any(f"{path}{os.sep}" in text for path in own if len(path.parts) > 2)


def _machine(arguments: argparse.Namespace) -> Machine | None:
    if not (arguments.snapshot or arguments.here):
        return None
    from gpuforge.detect import read_machine
    from gpuforge.probe import SnapshotProbe

    return read_machine(SnapshotProbe(Path(arguments.snapshot)) if arguments.snapshot else None)
