"""``gpuforge env``: plan, export, create and verify environments for this hardware."""

from __future__ import annotations

import argparse
import importlib

from gpuforge.cli import render
from gpuforge.errors import EnvironmentMismatch, PlanRefused

SUMMARY = "plan, create and verify environments that fit this hardware"
REFUSED = 1
# Subcommand, the module that implements it, its summary.
_ACTIONS = (
    ("list", "advise", "list the profiles and how well each fits this machine"),
    ("show", "advise", "show the packages of a profile"),
    ("recommend", "advise", "recommend a profile for this hardware"),
    ("plan", "advise", "show which packages would be installed, from where and why"),
    ("export", "advise", "write a plan as requirements.txt, pyproject.toml, Dockerfile, ..."),
    ("create", "make", "create an environment and verify it"),
    ("verify", "make", "check that an environment computes correctly on its device"),
    ("switch", "make", "create a second environment: the same profile with another framework"),
    ("fetch", "make", "download all packages, for use without a network"),
    ("new", "write", "create a profile of your own"),
    ("edit", "write", "edit a profile of your own"),
    ("refresh", "write", "ask the package index for newer releases"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands; only the module of the one that runs is imported."""
    from gpuforge.cli.commands.env import arguments

    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, module, summary in _ACTIONS:
        one = actions.add_parser(name, help=summary, description=summary)
        arguments.declare(name, one)
        # The command itself has this option, too; here it can also follow the subcommand.
        one.add_argument(
            "--verbose",
            action="store_true",
            default=argparse.SUPPRESS,
            help="print the output of installers and the time of each phase",
        )
        one.set_defaults(module=module)


def run(found: argparse.Namespace) -> int:
    """Run one subcommand; return 1 if the plan is refused."""
    module = importlib.import_module(f"{__name__}.{found.module}")
    try:
        status: int = getattr(module, found.action)(found)
    except (EnvironmentMismatch, PlanRefused) as error:
        render.failure(error)
        return REFUSED
    return status
