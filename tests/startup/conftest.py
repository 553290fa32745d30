"""What a warm-up sets for the whole process is taken back after each test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuforge.runtime.startup import caches


@pytest.fixture(autouse=True)
def caches_unset_again(own_home: object) -> Iterator[None]:
    before = dict(os.environ)
    yield
    for one in caches.plan(Path("/"), {}):
        if one.variable not in before:
            os.environ.pop(one.variable, None)
