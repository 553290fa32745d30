"""``GPUFORGE_REQUIRE`` turns skips for want of a library into failures, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CASES = {
    "runs": "def test_it(): pass",
    "skips": "import pytest\ndef test_it(): pytest.skip('needs json')",
    "module": "import pytest\npytest.skip('could not import json', allow_module_level=True)",
    "other": "import pytest\ndef test_it(): pytest.skip('needs jsonish')",
    "expected": "import pytest\n@pytest.mark.xfail(reason='json')\ndef test_it(): assert False",
}


def outcome(folder: Path, source: str, required: str) -> int:
    shutil.copy(Path(__file__).parent / "conftest.py", folder)
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_case.py").write_text(source)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_case.py"],
        cwd=folder,
        env={**os.environ, "GPUFORGE_REQUIRE": required},
        capture_output=True,
    ).returncode


@pytest.mark.parametrize("case", CASES)
def test_a_skip_for_want_of_it_fails(case: str, tmp_path: Path) -> None:
    failed = outcome(tmp_path, CASES[case], "json") not in (0, pytest.ExitCode.NO_TESTS_COLLECTED)
    assert failed == (case in ("skips", "module"))


def test_a_library_that_is_not_there_fails_at_once(tmp_path: Path) -> None:
    assert outcome(tmp_path, CASES["runs"], "no_such_library") == pytest.ExitCode.USAGE_ERROR
