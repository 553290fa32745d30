"""``gpuforge serve``: show this machine in a browser, and export its readings to Prometheus."""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import os
import secrets
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gpuforge import settings
from gpuforge.cli import render
from gpuforge.cli.main import FINE
from gpuforge.cli.session_reports import SessionReports
from gpuforge.errors import BackendUnavailable, GpuForgeError, InvalidSettings, WorkloadError
from gpuforge.monitor.history import Recorder
from gpuforge.monitor.sample import Sample, Sampler
from gpuforge.units import parse_seconds

SUMMARY = "show this machine in a browser; export readings to Prometheus"
INSTALL = "pip install 'gpuforge[serve]'"
PORT = 8765
SHORTEST_SECONDS = 0.1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--port", type=int, default=PORT, help=f"port, or 0 for a free one (default: {PORT})"
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: this machine only)"
    )
    parser.add_argument(
        "--name",
        action="append",
        default=[],
        metavar="NAME",
        help="a host name that browsers may use for this server; may be repeated",
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="read the token from FILE, which is created if it is missing (default: a new token)",
    )
    parser.add_argument(
        "--sessions",
        type=Path,
        default=Path(),
        metavar="FOLDER",
        help="list the session files (.gfp) in FOLDER (default: the current folder)",
    )
    parser.add_argument(
        "--interval",
        metavar="SECONDS",
        help="time between two readings (default: the setting monitor_interval)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve until interrupted."""
    try:
        from gpuforge.monitor.web import app, feed, server
    except ImportError as error:
        raise BackendUnavailable(
            f"gpuforge serve needs packages that are not installed: {error}",
            hint=f"install them: {INSTALL}",
        ) from None
    interval = settings.load().settings.monitor_interval
    if arguments.interval is not None:
        interval = parse_seconds(arguments.interval, "--interval ")
    if interval < SHORTEST_SECONDS:
        raise InvalidSettings(
            f"--interval {arguments.interval} is below {SHORTEST_SECONDS} s", hint="use 1 or more"
        )
    if not arguments.sessions.is_dir():
        raise WorkloadError(
            f"--sessions {str(arguments.sessions)!r} is not a folder",
            hint="name a folder that contains session files",
        )
    token = (
        server.read_token(arguments.token_file)
        if arguments.token_file
        else secrets.token_urlsafe(server.TOKEN_BYTES)
    )
    with server.listen(arguments.host, arguments.port) as socket:
        port = socket.getsockname()[1]
        sampler = Sampler()
        watched = feed.Feed(_recorded(sampler), facts, interval_seconds=interval)
        exporter = _exporter(watched)
        dashboard = app.application(
            watched,
            token=token,
            names=arguments.name,
            any_address=not _is_loopback(arguments.host),
            port=port,
            reports=SessionReports(arguments.sessions),
        )
        _tell(arguments.host, port, token)
        try:
            asyncio.run(server.Server(dashboard, watched).serve([socket]))
        finally:
            if exporter is not None:
                exporter.shutdown()
            sampler.close()
    return FINE


def facts() -> dict[str, Any]:
    """Return the facts for the page: the machine, its health, environment and findings."""
    from gpuforge.cli import machine_view, overview
    from gpuforge.cli.build_planner import plan_builds
    from gpuforge.detect import read_machine
    from gpuforge.diagnose.run import run_checks

    machine = read_machine()
    report = run_checks(planner=plan_builds)
    shown = ("check", "state", "message", "steps")
    return {
        "machine": machine_view.document(machine),
        "health": overview.health(machine),
        "environment": overview.environment_lines(machine, None, cpu_only=False),
        "findings": [
            {name: value for name, value in asdict(finding).items() if name in shown}
            for finding in report.findings
        ],
    }


def _recorded(sampler: Sampler) -> Callable[[], Sample]:
    """Return a function that takes samples and records them if ``history`` allows it."""
    recorder = Recorder()

    def take() -> Sample:
        sample = sampler.take()
        recorder.add(sample)
        return sample

    return take


def _exporter(watched: Any) -> Any:
    """Return the OpenTelemetry exporter; None if it is not configured or cannot start."""
    from gpuforge.monitor import opentelemetry

    if not opentelemetry.is_configured(os.environ):
        return None
    try:
        return opentelemetry.start_export(lambda: watched.sample)
    except GpuForgeError as error:
        render.message(f"note: OpenTelemetry export is off: {error}; {error.hint}")
        return None


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _tell(host: str, port: int, token: str) -> None:
    """Print the address to open."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    place = f"[{shown}]" if ":" in shown else shown
    render.data(f"http://{place}:{port}/?token={quote(token, safe='')}")
    render.message("open this address in a browser; press Ctrl-C to stop the server")
    if not _is_loopback(host):
        render.message(
            "note: the connection, token included, is not encrypted: put a proxy with TLS in front,"
            " or use an SSH tunnel"
        )
