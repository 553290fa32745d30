"""Plans for machines whose outputs were recorded: the committed table, and nothing impossible."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
from test_plan import assert_possible, plan

from gpuforge.compat.builds import FRAMEWORKS

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "environments" / "plans.py"


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


def test_the_committed_table_is_what_is_planned(corpus: Path, script: dict[str, Any]) -> None:
    text = script["TABLE"].read_text(encoding="utf-8")
    assert script["render"](corpus / "devices") == text


def test_no_recorded_machine_gets_an_impossible_choice(
    corpus: Path, script: dict[str, Any]
) -> None:
    snapshots = script["snapshots"](corpus / "devices")
    assert len(snapshots) > 100
    for snapshot in snapshots:
        machine = script["machine_of"](snapshot)
        for framework in FRAMEWORKS:
            for name in ("production", "research"):
                found = plan(machine, name, framework)
                assert_possible(found, machine, by_name=True)
