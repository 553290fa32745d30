"""A dashboard on loopback, served from a thread of the test."""

from __future__ import annotations

import asyncio
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.client import HTTPMessage
from pathlib import Path

import pytest

from gpuforge.cli.session_reports import SessionReports
from tests.chromium import axe, chromium
from tests.monitor.made_sample import FACTS, Producer

__all__ = ["axe", "chromium"]

TOKEN = "the-right-token-of-24-chars"
INTERVAL_SECONDS = 0.1


@dataclass
class Dashboard:
    """A running dashboard and what feeds it."""

    producer: Producer
    port: int = 0
    taken: Callable[[], int] = int
    stop: Callable[[], None] = field(default=lambda: None)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str, **headers: str) -> tuple[int, HTTPMessage, bytes]:
        """Return status, headers and body; redirects are not followed."""
        given = {"Authorization": f"Bearer {TOKEN}", **headers}
        request = urllib.request.Request(self.address + path, headers=given)
        opener = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=20) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as answer:
            with answer:
                return answer.code, answer.headers, answer.read()


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


def eventually(check: Callable[[], object], what: str, seconds: float = 30.0) -> None:
    """Wait until `check` is true."""
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}"
        time.sleep(0.02)


@pytest.fixture
def serve() -> Iterator[Callable[..., Dashboard]]:
    """Return what starts a dashboard on a port."""
    for library in ("starlette", "uvicorn", "prometheus_client"):
        pytest.importorskip(library)
    from gpuforge.monitor.web import app, feed, server

    ends: list[Callable[[], None]] = []

    def start(
        producer: Producer | None = None,
        *,
        port: int = 0,
        token: str = TOKEN,
        sessions: Path | None = None,
    ) -> Dashboard:
        found = Dashboard(producer or Producer(past=300))
        socket = server.listen("127.0.0.1", port)
        found.port = socket.getsockname()[1]
        fed = feed.Feed(found.producer.take, lambda: FACTS, interval_seconds=INTERVAL_SECONDS)
        found.taken = lambda: fed.taken
        reports = SessionReports(sessions) if sessions else None
        page = app.application(fed, token=token, port=found.port, reports=reports)
        running = server.Server(page, fed)

        def work() -> None:
            with socket:
                asyncio.run(running.serve([socket]))

        thread = threading.Thread(target=work)
        thread.start()

        def end() -> None:
            if thread.is_alive():
                running.handle_exit(2, None)
                thread.join(20)
            assert not thread.is_alive(), "the server does not end"
            # Those in which files are read end by themselves, a moment after their loop.
            eventually(lambda: not any("AnyIO" in t.name for t in threading.enumerate()), "threads")

        found.stop = end
        ends.append(end)
        eventually(lambda: fed.taken > 1, "two samples")
        return found

    yield start
    for end in ends:
        end()


@pytest.fixture
def dashboard(serve: Callable[..., Dashboard]) -> Dashboard:
    return serve()
