"""``gpuforge run``: run a program, and summarize where its array functions ran."""

from __future__ import annotations

import argparse
import os

from gpuforge import log, settings
from gpuforge.cli.program import Program, environment, replace_this_process
from gpuforge.errors import BackendUnavailable, UnknownName, WorkloadError

SUMMARY = "run a program and report where its array functions ran"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options, which precede the program; what follows it are its own arguments."""
    parser.usage = f"{parser.prog} [OPTIONS] SCRIPT|-m MODULE [ARGS]"
    parser.add_argument(
        "--save",
        metavar="FILE",
        help="keep a profile of the program in this file (.gfp); 'gpuforge report' shows it",
    )
    parser.add_argument(
        "--peaks",
        action="store_true",
        help="with --save: also measure the transfer speed of the devices that were used",
    )
    parser.add_argument(
        "--accelerate",
        action="store_true",
        help="also accelerate the program's own NumPy functions, without editing them",
    )
    parser.add_argument(
        "--lazy-imports",
        action=argparse.BooleanOptionalAction,
        help="import large libraries when they are first used",
    )
    parser.add_argument(
        "--backend",
        metavar="NAME",
        default="",
        help="use only NumPy and this backend, LIBRARY[:DEVICE]",
    )
    parser.add_argument(
        "--quiet", action=argparse.BooleanOptionalAction, help="do not print the summary"
    )
    parser.add_argument(
        "-m", dest="module", metavar="MODULE", nargs=argparse.REMAINDER, help="run a module"
    )
    parser.add_argument(
        "program", metavar="SCRIPT", nargs=argparse.REMAINDER, help="the script and its arguments"
    )


def run(arguments: argparse.Namespace) -> int:
    """Replace this process with the program."""
    module = [] if arguments.module is None else ["-m", *arguments.module]
    words = module + arguments.program  # a module's arguments from "--" on are among the latter
    if words[:1] == ["--"]:  # it ends the flags of this command
        del words[0]
    if not words or words == ["-m"]:
        raise WorkloadError("no program was given", hint="use 'gpuforge run SCRIPT'")
    if arguments.peaks and arguments.save is None:
        raise UnknownName("gpuforge run: --peaks needs --save", hint="add --save FILE")
    program = Program(tuple(words))
    program.check()

    if arguments.save is not None:
        from gpuforge.profiler.session_path import check_target

        check_target(arguments.save)
    from gpuforge.runtime.startup import caches, record
    from gpuforge.runtime.threads.contention import prepare_environment

    prepared = prepare_environment()  # before NumPy is loaded, which reads the variables
    _check_backend(arguments.backend)
    chosen = settings.load().settings
    if chosen.kernel_caches:
        prepared |= caches.prepare(settings.cache_folder(chosen), os.environ)
    lazy = chosen.lazy_imports if arguments.lazy_imports is None else arguments.lazy_imports
    variables = environment(
        os.environ,
        backend=arguments.backend,
        accelerated=_own_folder(words) if arguments.accelerate else "",
        prepared=prepared,
        saved=os.path.abspath(arguments.save) if arguments.save is not None else "",
        peaks=arguments.peaks,
        lazy=record.switched_off() if lazy else None,
        summary=chosen.profiler if arguments.quiet is None else not arguments.quiet,
        verbose=arguments.verbose,
    )
    log.logger().info("starting %s", " ".join(words))
    replace_this_process(program, variables)


def _own_folder(words: list[str]) -> str:
    """Return the folder whose modules are the user's own: that of the project or the program."""
    from gpuforge.cli.own_code import project_folder

    script = words[0] not in ("-m", "-") and not os.path.isdir(words[0])
    return project_folder(os.path.dirname(os.path.realpath(words[0])) if script else os.getcwd())


def _check_backend(name: str) -> None:
    if not name:
        return
    from gpuforge.runtime.backends import list_backends, names

    library = name.partition(":")[0]
    entries = {entry.name: entry for entry in list_backends(plugins=library not in names())}
    found = {name: entry.found for name, entry in entries.items()}
    if library not in found:
        raise UnknownName.among("backend", library, found)
    if not found[library] and not settings.load().settings.fallback:
        raise BackendUnavailable(
            f"backend {name!r} is not installed here",
            hint=f"pip install {entries[library].library}, or set fallback to run on NumPy",
        )
