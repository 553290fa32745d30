"""A plug-in of pytest: operators become offloaded calls too, and what came of each test is kept.

``CONFORMANCE_OUTPUT`` names the file that gets one line of JSON for each test as it ends, and one
with the counts of calls at the end.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from conformance import namespace

OUTPUT = Path(os.environ["CONFORMANCE_OUTPUT"])
OPERATOR = "__"


def keep(**line: Any) -> None:
    with OUTPUT.open("a") as file:
        file.write(json.dumps(line) + "\n")


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Let the tests of operators call them in an offloaded function."""
    for item in items if namespace.BACKEND != "plain" else []:
        given = item.callspec.params if hasattr(item, "callspec") else {}
        context = given.get("ctx")
        if context is not None and context.func_name.startswith(OPERATOR):
            given["ctx"] = context._replace(func=namespace.calling(context.func))


def pytest_runtest_logstart(nodeid: str) -> None:
    keep(test=nodeid)


def pytest_runtest_logreport(report: Any) -> None:
    if report.when == "call" or report.outcome != "passed":
        crash = getattr(report.longrepr, "reprcrash", None)
        message = " ".join(crash.message.split())[:300] if crash and report.failed else ""
        keep(test=report.nodeid, outcome=report.outcome, message=message)


def pytest_sessionfinish() -> None:
    keep(calls=namespace.counts())
