"""``gpuforge env``: the right builds for this hardware, planned, written, created, verified."""

from __future__ import annotations

import argparse
import importlib

from gpuforge.cli import render
from gpuforge.errors import EnvironmentMismatch, PlanRefused

SUMMARY = "environments: list, recommend, plan, export, create, verify, switch"
REFUSED = 1
# Sub-command, the module that runs it, what it does.
_ACTIONS = (
    ("list", "advise", "all profiles and how well each fits this machine"),
    ("show", "advise", "the packages of one profile"),
    ("recommend", "advise", "the best profile for this hardware"),
    ("plan", "advise", "what would be installed, from where, and why"),
    ("export", "advise", "the plan as a file of another tool"),
    ("create", "make", "create an environment and verify it"),
    ("verify", "make", "run a real kernel in an environment and compare it with NumPy"),
    ("switch", "make", "the same profile on another framework, in its own environment"),
    ("fetch", "make", "download all packages ahead"),
    ("new", "write", "start a profile of your own"),
    ("edit", "write", "open a profile of your own in the editor"),
    ("refresh", "write", "ask the index for newer releases than are known"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-commands; only the named one's module is imported when it runs."""
    from gpuforge.cli.commands.env import arguments

    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, module, summary in _ACTIONS:
        one = actions.add_parser(name, help=summary, description=summary)
        arguments.declare(name, one)
        # As the command itself has it, so that it may stand at the end as well.
        one.add_argument(
            "--verbose", action="store_true", default=argparse.SUPPRESS, help="say what takes long"
        )
        one.set_defaults(module=module)


def run(found: argparse.Namespace) -> int:
    """Run one sub-command; what is refused ends with status 1."""
    module = importlib.import_module(f"{__name__}.{found.module}")
    try:
        status: int = getattr(module, found.action)(found)
    except (EnvironmentMismatch, PlanRefused) as error:
        render.failure(error)
        return REFUSED
    return status
