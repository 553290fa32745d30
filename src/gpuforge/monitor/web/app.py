"""The web application of the dashboard: the page, its feed, metrics, and health."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from gpuforge.errors import WorkloadError
from gpuforge.monitor.prometheus import exposition
from gpuforge.monitor.web.feed import Feed
from gpuforge.monitor.web.guard import Guard

PAGE = Path(__file__).with_name("page")
# Without a new sample for so long, the health check fails.
LATE_INTERVALS, LATE_SECONDS = 5.0, 3.0
# A report contains scripts and may come from an untrusted file. The sandbox gives it an origin of
# its own, so it can access neither the cookie nor the readings.
REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
)


class Reports(Protocol):
    """The source of session files and their reports."""

    def recent(self) -> list[dict[str, Any]]:
        """Return the newest files, each with key, name, changed_at and size_bytes."""

    def report(self, key: str) -> str | None:
        """Return the report of one file as HTML, or None if there is no file with this key."""


class _Answers:
    """The request handlers."""

    def __init__(self, feed: Feed, reports: Reports | None) -> None:
        self.feed, self.reports = feed, reports

    async def page(self, _: Request) -> Response:
        return FileResponse(PAGE / "index.html")

    async def events(self, _: Request) -> Response:
        return StreamingResponse(self.feed.events(), media_type="text/event-stream")

    async def now(self, _: Request) -> Response:
        return JSONResponse(self.feed.now())

    def sessions(self, _: Request) -> Response:
        shown = ("key", "name", "changed_at", "size_bytes")
        found = self.reports.recent() if self.reports else []
        return JSONResponse([{name: one[name] for name in shown} for one in found])

    def session(self, request: Request) -> Response:
        try:
            page = self.reports.report(request.path_params["key"]) if self.reports else None
        except WorkloadError as error:
            return PlainTextResponse(f"{error}\n", 422)
        if page is None:
            return PlainTextResponse("This session file no longer exists.\n", 404)
        return HTMLResponse(page, headers={"Content-Security-Policy": REPORT_POLICY})

    async def metrics(self, request: Request) -> Response:
        compat = request.query_params.get("compat", "")
        if compat not in ("", "dcgm"):
            return PlainTextResponse(f"unknown compat {compat!r}; known: dcgm\n", 400)
        accept = request.headers.get("accept", "")
        text, kind = exposition(self.feed.exported(), accept, dcgm=compat == "dcgm")
        return Response(text, media_type=kind)

    async def health(self, _: Request) -> Response:
        age, interval = self.feed.age_seconds(), self.feed.interval_seconds
        well = age is not None and age < max(LATE_SECONDS, LATE_INTERVALS * interval)
        told = {"status": "ok" if well else "no readings", "last_sample_age_seconds": age}
        return JSONResponse(told, 200 if well else 503)


def application(
    feed: Feed,
    *,
    token: str,
    names: Collection[str] = (),
    any_address: bool = False,
    port: int = 0,
    reports: Reports | None = None,
) -> Starlette:
    """Return the dashboard for a feed, which it opens and closes.

    Parameters
    ----------
    reports
        The source of session files to list.
    token, names, any_address
        As for `gpuforge.monitor.web.guard.Guard`.
    port
        The port of the server; part of the cookie's name.
    """

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await feed.open()
        try:
            yield
        finally:
            feed.close()
            feed.join(2.0)

    guard = Middleware(
        Guard, token=token, names=names, any_address=any_address, cookie=f"gpuforge-{port}"
    )
    answers = _Answers(feed, reports)
    routes = [
        Route("/", answers.page),
        Route("/events", answers.events),
        Route("/api/now", answers.now),
        Route("/api/sessions", answers.sessions),
        Route("/sessions/{key}", answers.session),
        Route("/metrics", answers.metrics),
        Route("/health", answers.health),
        Mount("/page", StaticFiles(directory=PAGE)),
    ]
    return Starlette(routes=routes, middleware=[guard], lifespan=lifespan)
