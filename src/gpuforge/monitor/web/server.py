"""The HTTP server of the dashboard, its socket and its token."""

from __future__ import annotations

import errno
import os
import secrets
import socket
from pathlib import Path
from types import FrameType

import uvicorn
from starlette.applications import Starlette

from gpuforge.errors import InvalidSettings
from gpuforge.monitor.web.feed import Feed

TOKEN_BYTES = 24
SHORTEST_TOKEN = 16


class Server(uvicorn.Server):
    """Closes the feed before it waits for connections, whose streams would not end otherwise."""

    def __init__(self, app: Starlette, feed: Feed) -> None:
        super().__init__(
            uvicorn.Config(
                app, log_config=None, access_log=False, server_header=False, lifespan="on",
                timeout_graceful_shutdown=2,
            )
        )  # fmt: skip
        self._feed = feed

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Close the feed, then shut down."""
        self._feed.close()
        super().handle_exit(sig, frame)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address of this machine.

    Raises
    ------
    InvalidSettings
        If the address does not belong to this machine, or the port is invalid or in use.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OverflowError:
        raise InvalidSettings(
            f"--port {port} is not a port number", hint="use 0 for a free port, or 1 to 65535"
        ) from None
    except OSError as error:
        code = error.errno or 0
        if code in (errno.EADDRINUSE, errno.EACCES):
            raise InvalidSettings(
                f"--port {port} cannot be used on {host}: {os.strerror(code)}",
                hint="use --port 0 for a free port",
            ) from None
        what = "is not an address or a known name"
        if code > 0:  # else an error of the name resolver
            what = f"cannot be used for listening on port {port}: {os.strerror(code)}"
        raise InvalidSettings(
            f"--host {host!r} {what}", hint="name an address of this machine"
        ) from None


def read_token(file: Path) -> str:
    """Return the token in `file`; if it does not exist, create it, readable by its owner only.

    Raises
    ------
    InvalidSettings
        If the file cannot be read or written, or its token is shorter than 16 characters.
    """
    try:
        if not file.exists():
            handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(handle, "w", encoding="ascii") as new:
                new.write(secrets.token_urlsafe(TOKEN_BYTES) + "\n")
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise InvalidSettings(
            f"--token-file {str(file)!r}: {getattr(error, 'strerror', None) or error}",
            hint="name a file in a folder that you can write to",
        ) from None
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
        raise InvalidSettings(
            f"--token-file {str(file)!r} does not contain a token: expected at least"
            f" {SHORTEST_TOKEN} printable ASCII characters",
            hint="remove the file: gpuforge serve will create it with a new token",
        )
    return token
