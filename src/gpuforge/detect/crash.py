"""Protection from vendor libraries that crash: after a crash, the next probe runs in a child.

A detector leaves a file before it enters a native library and removes it afterwards. A file whose
process is gone means that the last probe crashed, or hung until its process ended.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gpuforge.detect import stored
from gpuforge.detect.seen import Seen
from gpuforge.facts import Failed, VendorFailure
from gpuforge.probe import LiveProbe, Output
from gpuforge.probe.live import process_lives

PREFIX = "in-native-code"


def _node() -> str:
    node = os.uname().nodename if hasattr(os, "uname") else ""
    return "".join(c for c in node if c.isalnum())[:40]


@contextmanager
def breadcrumb(folder: Path, vendor: str) -> Iterator[None]:
    """Keep a file in `folder` while the block runs; a folder that is not writable is no error."""
    path = folder / f"{PREFIX}.{_node()}.{vendor}.{os.getpid()}"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        path.touch()
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()


def left_by_dead(folder: Path, vendor: str) -> list[Path]:
    """Return the files left for `vendor` by processes of this machine that no longer exist."""
    with suppress(OSError):
        found = list(folder.glob(f"{PREFIX}.{_node()}.{vendor}.*"))
        return [path for path in found if not process_lives(path.suffix[1:])]
    return []


def in_child(vendor: str, seconds: float, left: list[Path]) -> Seen:
    """Run one detector in a child process; a crash of the child is reported as a failure."""
    argv = [sys.executable, "-m", "gpuforge.detect.crash", vendor]
    output = LiveProbe().run(argv, timeout=seconds)
    if isinstance(output, Output) and output.status == 0:
        found = stored.loads(output.stdout)
        if isinstance(found, Seen):
            for path in left:
                path.unlink(missing_ok=True)
            found.notes.append(f"{vendor} runs in a child process: its last detection crashed")
            return found
    seen = Seen()
    if isinstance(output, Output):
        how = f"signal {-output.status}" if output.status < 0 else f"status {output.status}"
        reason = f"the {vendor} library ended its process with {how}"
        seen.failures.append(VendorFailure(vendor, "library_crashed", reason))
    elif isinstance(output, Failed):
        seen.fail(vendor, output)
    return seen


def main(vendor: str) -> None:
    """Run one detector and write what it saw to stdout."""
    import importlib

    found = importlib.import_module(f"gpuforge.detect.{vendor}").detect(LiveProbe())
    sys.stdout.write(stored.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
