"""The ``gpuforge`` program: find the command, parse its arguments, run it."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from types import ModuleType

from gpuforge import __version__
from gpuforge.cli import render
from gpuforge.errors import GpuForgeError, InvalidSettings, UnknownName

COMMANDS = "gpuforge.cli.commands"
FINE, PROBLEM, WRONG_USAGE, NOTHING, INTERRUPTED = 0, 1, 2, 3, 130
NEEDED = ("array_api_compat", "numpy", "packaging", "platformdirs", "tomlkit", "tqdm")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    argv = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(argv)
    except GpuForgeError as error:
        render.failure(error)
        return WRONG_USAGE
    except ModuleNotFoundError as error:
        render.failure(_without_module(error))
        return PROBLEM
    except KeyboardInterrupt:
        render.message("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return FINE


def _without_module(error: ModuleNotFoundError) -> GpuForgeError:
    """Return the error for a missing module; raise `error` itself if its cause is unknown."""
    home = os.environ.get("PYTHONHOME")
    package = (error.name or "").partition(".")[0]
    if package in NEEDED:
        text = f"gpuforge needs the package {package}, which is not installed"
        return GpuForgeError(text, hint=f"run 'python -m pip install {package}'")
    if home and error.name in sys.stdlib_module_names:
        text = f"{error}: PYTHONHOME={home} points to the standard library of another Python"
        return GpuForgeError(text, hint="unset PYTHONHOME")
    raise error


def _run(argv: list[str]) -> int:
    if argv[:1] == ["help"] and len(argv) > 1:
        argv = [argv[1], "--help"]
    name = argv[0] if argv else ""
    if name in ("-h", "--help", "help"):
        render.data(_help())
        return FINE
    if name == "--version":
        render.data(f"gpuforge {__version__}")
        return FINE
    if not argv or argv[0].startswith("-"):
        from gpuforge.cli import overview

        return _call(overview, "gpuforge", argv)
    from gpuforge import registry

    known = [module.replace("_", "-") for module in registry.names(COMMANDS)]
    if name not in known:
        raise UnknownName.among("command", name, known)
    command = importlib.import_module(f"{COMMANDS}.{name.replace('-', '_')}")
    return _call(command, f"gpuforge {name}", argv[1:])


def _call(command: ModuleType, name: str, argv: list[str]) -> int:
    """Parse the arguments of one command and run it."""
    from gpuforge.cli.argument_parser import ArgumentParser

    parser = ArgumentParser(prog=name, description=getattr(command, "SUMMARY", command.__doc__))
    parser.add_argument(
        "--verbose",
        action="store_true",
        help="print the time of each phase, and what was skipped, to stderr",
    )
    command.add_arguments(parser)
    arguments = parser.parse_args(argv)
    _open_log(verbose=arguments.verbose, strict=getattr(command, "STRICT_SETTINGS", False))

    from gpuforge import log

    with log.phase(name):
        return int(command.run(arguments))


def _open_log(*, verbose: bool, strict: bool) -> None:
    """Open the log according to the settings, and report settings that were ignored.

    Invalid settings raise in the commands that use them, so that others can correct them.
    """
    from gpuforge import log, settings

    flags = {"verbose": True} if verbose else {}
    try:
        loaded = settings.load(flags=flags, strict=strict)
    except InvalidSettings as error:
        log.open_log(settings.Settings(verbose=verbose))
        log.logger().info("settings not used: %s", error)
        return
    log.open_log(loaded.settings)
    for problem in loaded.problems:
        render.message(f"note: {problem}")


def _help() -> str:
    from gpuforge import registry

    loaded = registry.load(COMMANDS)
    rows = [(name.replace("_", "-"), module.SUMMARY) for name, module in loaded.modules.items()]
    rows += [(failure.name, f"does not load: {failure.reason}") for failure in loaded.failures]
    return (
        "usage: gpuforge COMMAND [OPTIONS]\n"
        "       gpuforge [--cpu-only] [--diagnose] [--profile NAME] [--verbose]\n"
        "       gpuforge --version\n\n"
        "Without a command: show this machine, its health, the environment that fits it\n"
        "and what to do next. --cpu-only reads no GPUs, --diagnose also runs\n"
        "'gpuforge doctor', and --profile NAME takes an environment of\n"
        "'gpuforge env list'.\n\n"
        + render.table(rows, indent="  ")
        + "\n\nRun 'gpuforge COMMAND --help' for the options of a command."
    )
