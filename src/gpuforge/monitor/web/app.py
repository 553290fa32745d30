"""What the dashboard answers: the page, its feed, metrics, health."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    JSONResponse,
    PlainTextResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from gpuforge.monitor.prometheus import exposition
from gpuforge.monitor.web.feed import Feed
from gpuforge.monitor.web.guard import Guard

PAGE = Path(__file__).with_name("page")
# Without a sample for so long, health is refused.
LATE_INTERVALS, LATE_SECONDS = 5.0, 3.0


def application(
    feed: Feed, *, token: str, names: Collection[str] = (), any_address: bool = False, port: int = 0
) -> Starlette:
    """Return the dashboard of a feed, which it opens and closes.

    Parameters
    ----------
    token, names, any_address
        As `gpuforge.monitor.web.guard.Guard` has them.
    port
        Where it is served; part of the cookie's name.
    """

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await feed.open()
        try:
            yield
        finally:
            feed.close()
            feed.join(2.0)

    async def page(_: Request) -> Response:
        return FileResponse(PAGE / "index.html")

    async def events(_: Request) -> Response:
        return StreamingResponse(feed.events(), media_type="text/event-stream")

    async def now(_: Request) -> Response:
        return JSONResponse(feed.now())

    async def metrics(request: Request) -> Response:
        compat = request.query_params.get("compat", "")
        if compat not in ("", "dcgm"):
            return PlainTextResponse(f"unknown compat {compat!r}; known: dcgm\n", 400)
        accept = request.headers.get("accept", "")
        text, kind = exposition(feed.exported(), accept, dcgm=compat == "dcgm")
        return Response(text, media_type=kind)

    async def health(_: Request) -> Response:
        age = feed.age_seconds()
        well = age is not None and age < max(LATE_SECONDS, LATE_INTERVALS * feed.interval_seconds)
        told = {"status": "ok" if well else "no readings", "last_sample_age_seconds": age}
        return JSONResponse(told, 200 if well else 503)

    guard = Middleware(
        Guard, token=token, names=names, any_address=any_address, cookie=f"gpuforge-{port}"
    )
    routes = [
        Route("/", page),
        Route("/events", events),
        Route("/api/now", now),
        Route("/metrics", metrics),
        Route("/health", health),
        Mount("/page", StaticFiles(directory=PAGE)),
    ]
    return Starlette(routes=routes, middleware=[guard], lifespan=lifespan)
