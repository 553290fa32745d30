"""Serving the dashboard on a socket until the user ends it."""

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
    """Ends what is sent to viewers before it waits for their connections."""

    def __init__(self, app: Starlette, feed: Feed) -> None:
        super().__init__(
            uvicorn.Config(
                app, log_config=None, access_log=False, server_header=False, lifespan="on",
                timeout_graceful_shutdown=2,
            )
        )  # fmt: skip
        self._feed = feed

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end."""
        self._feed.close()
        super().handle_exit(sig, frame)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to an address of this machine.

    Raises
    ------
    InvalidSettings
        If the address is none of this machine's, or the port is taken.
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
        if code <= 0:  # of the resolver
            what, hint = "is not an address or a known name", "name an address of this machine"
        else:
            what = f"cannot be used for listening on port {port}: {os.strerror(code)}"
            busy = code in (errno.EADDRINUSE, errno.EACCES)
            hint = "use --port 0 for a free port" if busy else "name an address of this machine"
        raise InvalidSettings(f"--host {host!r} {what}", hint=hint) from None


def read_token(file: Path) -> str:
    """Return the token in `file`; a new one is written there, for its owner only, if none is.

    Raises
    ------
    InvalidSettings
        If the file cannot be read or written, or holds no token of 16 characters or more.
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
