"""The session files in a folder and their reports, for the dashboard."""

from __future__ import annotations

import hashlib
from operator import itemgetter
from pathlib import Path
from typing import Any

MAX_FILES = 20
# Larger files would take too long to render in the server; 'gpuforge report' can show them.
MOST_BYTES = 256 << 20


class SessionReports:
    """Finds session files in a folder, but not in its subfolders.

    Parameters
    ----------
    folder
        The folder with the session files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def recent(self) -> list[dict[str, Any]]:
        """Return the newest files, newest first: key, name, time of the last change and size."""
        found = []
        for path in self._folder.glob("*.gfp"):
            try:
                told = path.stat()
            except OSError:  # the file was removed in the meantime
                continue
            key = hashlib.sha256(path.name.encode("utf-8", "surrogateescape")).hexdigest()[:16]
            found.append(
                {
                    "key": key,
                    "name": path.name.encode("utf-8", "replace").decode(),
                    "changed_at": told.st_mtime,
                    "size_bytes": told.st_size,
                    "path": path,
                }
            )
        return sorted(found, key=itemgetter("changed_at"), reverse=True)[:MAX_FILES]

    def report(self, key: str) -> str | None:
        """Return the report of the file with this key as HTML, or None if there is none.

        Raises
        ------
        WorkloadError
            If the file cannot be read, or is no session file.
        """
        path = next((one["path"] for one in self.recent() if one["key"] == key), None)
        if path is None:
            return None
        from gpuforge.profiler import formats, session_file

        return formats.render(session_file.read(path, most_bytes=MOST_BYTES), "html")
