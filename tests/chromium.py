"""A real headless Chromium, and the rules of accessibility that pages are checked with."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
AXE = "axe-core@4.14.1"
AXE_SHA256 = "e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no Chromium for playwright: install Debian's package chromium")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return axe-core's script, from ``AXE_CORE`` or fetched once for all runs of this user."""
    if path := os.environ.get("AXE_CORE"):
        return Path(path).read_text(encoding="utf-8")
    folder = tmp_path_factory.getbasetemp().parent / "axe-core"
    file = folder / f"{AXE.replace('@', '-')}.tgz"
    if not file.exists():
        if shutil.which("npm") is None:
            pytest.skip("no npm to fetch axe-core for playwright: install it, or set AXE_CORE")
        folder.mkdir(exist_ok=True)
        command = ["npm", "pack", "--silent", "--cache", str(folder / "npm"), AXE]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
        if done.returncode:
            pytest.skip(f"npm cannot fetch axe-core for playwright: {done.stderr[-200:]}")
    content = file.read_bytes()
    assert hashlib.sha256(content).hexdigest() == AXE_SHA256
    with tarfile.open(fileobj=io.BytesIO(content)) as packed:
        script = packed.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()
