"""A package index on this machine with small wheels of the names that tests need."""

from __future__ import annotations

import base64
import hashlib
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def build_wheel(
    folder: Path, name: str, version: str, *, requires: tuple[str, ...] = (), script: bool = False
) -> Path:
    """Write a wheel whose module holds its version, with a console script if asked for."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    files = {
        f"{module}/__init__.py": f"def main():\n    print({version!r})\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        + "".join(f"Requires-Dist: {text}\n" for text in requires),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
    }
    if script:
        files[f"{info}/entry_points.txt"] = f"[console_scripts]\n{name} = {module}:main\n"
    record = ""
    path = folder / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for place, text in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
            record += f"{place},sha256={digest.decode()},{len(text)}\n"
            archive.writestr(place, text)
        archive.writestr(f"{info}/RECORD", record + f"{info}/RECORD,,\n")
    return path


class Index:
    """A running index: its address, its folder of wheels, and a name on which it stalls."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self.address = address
        self.stalls_on = ""
        self.stalled = threading.Event()
        self.go_on = threading.Event()
        self.fetched: list[str] = []

    def add(
        self, name: str, version: str, *, requires: tuple[str, ...] = (), script: bool = False
    ) -> Path:
        return build_wheel(self.folder, name, version, requires=requires, script=script)


@contextmanager
def running_index(folder: Path) -> Iterator[Index]:
    """Serve `folder` of wheels as a simple index on the loopback interface."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = [part for part in self.path.split("/") if part]
            if len(parts) == 2 and parts[0] == "simple":
                self._listing(parts[1])
            elif len(parts) == 2 and parts[0] == "files":
                index.fetched.append(parts[1])
                self._answer((folder / parts[1]).read_bytes(), "application/octet-stream")
            else:
                self.send_error(404)

        def do_HEAD(self) -> None:
            self.do_GET()

        def _listing(self, name: str) -> None:
            if name == index.stalls_on:
                index.stalled.set()
                index.go_on.wait()
            stem = name.replace("-", "_") + "-"
            links = [
                f'<a href="/files/{path.name}">{path.name}</a>'
                for path in folder.glob("*.whl")
                if path.name.startswith(stem)
            ]
            if links:
                self._answer("<br>".join(links).encode(), "text/html")
            else:
                self.send_error(404)

        def _answer(self, body: bytes, kind: str) -> None:
            try:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def log_message(self, *words: object) -> None:
            """Say nothing: the tests' output is not its place."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    index = Index(folder, f"http://127.0.0.1:{server.server_port}/simple")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield index
    finally:
        index.go_on.set()
        server.shutdown()
        thread.join()
        server.server_close()
