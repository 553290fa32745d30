"""GPUs from tools that are read only from recordings or pasted text, never run.

``lshw``, ``inxi``, ``vulkaninfo``, ``hwinfo``, kernel logs, dumps of environments, labels of nodes.
The readers are in `gpuforge.detect.text` and are imported only if there is a recording.
"""

from __future__ import annotations

from gpuforge.detect.seen import Seen
from gpuforge.probe import Output, Probe


def detect(probe: Probe) -> Seen:
    """Return the GPUs shown by recorded outputs of these tools."""
    seen = Seen()
    if not probe.recorded(""):
        return seen
    from gpuforge import registry

    readers = registry.load("gpuforge.detect.text")
    for name, reader in readers.modules.items():
        outputs = (probe.recorded(reader.PROGRAM) or ()) if hasattr(reader, "PROGRAM") else ()
        for output in outputs:
            if isinstance(output, Output):
                try:
                    reader.read(output.stdout, output.source, seen)
                except Exception as error:  # noqa: BLE001 - one reader must not hide the others
                    seen.notes.append(f"reader {name} failed: {type(error).__name__}: {error}")
    seen.notes += [(f"cannot load reader {one.name}: {one.reason}") for one in readers.failures]
    return seen
