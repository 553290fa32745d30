"""The only access to the operating system: files, processes, libraries, environment, clock.

`LiveProbe` reads this machine; `SnapshotProbe` replays a recorded one. Detection, checks and
settings learn about the machine only through a probe, so they can be tested on machines that were
recorded elsewhere.
"""

from gpuforge.probe.contract import OUTPUT_LIMIT_BYTES, Output, Probe
from gpuforge.probe.live import LiveProbe
from gpuforge.probe.snapshot import SnapshotProbe, recorded_name

__all__ = ["OUTPUT_LIMIT_BYTES", "LiveProbe", "Output", "Probe", "SnapshotProbe", "recorded_name"]
