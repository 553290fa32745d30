"""What only a recording or a pasted text shows: tools that no live machine is asked for.

``lshw``, ``inxi``, ``vulkaninfo``, ``hwinfo``, kernel logs, dumps of environments, labels of nodes.
The readers lie in `gpuforge.detect.text`, and are imported only where there is a recording.
"""

from __future__ import annotations

from gpuforge.detect.seen import Seen
from gpuforge.probe import Output, Probe


def detect(probe: Probe) -> Seen:
    """Return the GPUs that recorded outputs of other tools show."""
    seen = Seen()
    if not probe.recorded(""):
        return seen
    from gpuforge import registry

    readers = registry.load("gpuforge.detect.text")
    for reader in readers.modules.values():
        if hasattr(reader, "PROGRAM"):
            for output in probe.recorded(reader.PROGRAM) or ():
                if isinstance(output, Output):
                    reader.read(output.stdout, output.source, seen)
    seen.notes += [f"reader {one.name} does not load: {one.reason}" for one in readers.failures]
    return seen
