"""A pytest marker that fails a test whose offloaded calls exceed limits::

    @pytest.mark.gpuforge(max_transfers=2, max_transfer_bytes="16 MB")
    def test_step():
        step(x)

The limits are those of `gpuforge.profiler.limits` with the prefix ``max_``; sizes may be text. The
test is recorded in memory, so a test that records a profile itself cannot have the marker.
"""

from __future__ import annotations

from collections.abc import Generator
from operator import index
from typing import Any

import pytest

from gpuforge.profiler import limits
from gpuforge.units import parse_bytes

_LIMITS = pytest.StashKey[dict[str, int]]()


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and have gpuforge's modules imported as they are.

    Pytest rewrites the assertions of every module of a package that has a plugin, so that importing
    it takes two to three times as long.
    """
    hook = getattr(config.pluginmanager, "rewrite_hook", None)
    getattr(hook, "_must_rewrite", set()).discard("gpuforge")  # pytest has no other way to say it
    getattr(hook, "_marked_for_rewrite_cache", {}).clear()
    arguments = ", ".join(f"max_{name}=" for name in limits.NAMES)
    config.addinivalue_line(
        "markers",
        f"gpuforge({arguments}): fail the test if its offloaded calls exceed a limit",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Parse the limits of each marked test, so that errors are reported before any test runs."""
    for item in items:
        found: dict[str, int] = {}
        for mark in reversed(list(item.iter_markers("gpuforge"))):
            if mark.args or not mark.kwargs:
                raise pytest.UsageError(f"{item.nodeid}: the marker 'gpuforge' takes limits by "
                                        f"name, such as max_{limits.NAMES[0]}=10")  # fmt: skip
            found |= {name: _limit(item, name, value) for name, value in mark.kwargs.items()}
        if found:
            item.stash[_LIMITS] = {name.removeprefix("max_"): n for name, n in found.items()}


def _limit(item: pytest.Item, name: str, value: Any) -> int:
    known = [f"max_{one}" for one in limits.NAMES]
    if name not in known:
        raise pytest.UsageError(
            f"{item.nodeid}: the marker 'gpuforge' has no limit {name!r}; it has {', '.join(known)}"
        )
    try:
        number = parse_bytes(value) if name.endswith("bytes") else index(value)
    except (TypeError, ValueError) as error:
        raise pytest.UsageError(f"{item.nodeid}: the limit {name}={value!r}: {error}") from None
    if number < 0:
        raise pytest.UsageError(f"{item.nodeid}: the limit {name}={value!r} is below 0")
    return number


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Record a marked test, and check its limits if it passes."""
    limited = item.stash.get(_LIMITS, None)
    if limited is None:
        return (yield)
    from gpuforge.profiler.recording import Recording

    with Recording(by="the pytest marker 'gpuforge'") as recording:
        yield
    if wrong := limits.exceeded(recording.profile, limited):
        pytest.fail(f"gpuforge: {'; '.join(wrong)}", pytrace=False)
