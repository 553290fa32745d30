"""The GPU in the processor, which people often call just "the integrated GPU"."""

from __future__ import annotations

import re

from gpuforge.detect.notation import product_of
from gpuforge.detect.pci_ids import vendor_named_in
from gpuforge.detect.seen import DOUBT
from gpuforge.detect.text.clauses import form
from gpuforge.detect.text.told_device import ToldDevice, finished
from gpuforge.facts import Vendor

# Processors by maker; numbers such as 7840U or 5600G alone are AMD's.
_MAKERS: tuple[tuple[Vendor, str], ...] = (
    ("intel", r"\b(?:Intel|i[3579]|Ultra (?:X?[3579]|\d{3})|Celeron|Pentium)\b"),
    ("amd", r"\b(?:AMD|Ryzen|Athlon|\d{4}(?:X3D|GE|H[SX]|[GHUX]))\b"),
)
# Names of processors that have a GPU of their maker's in any case.
_WITH_GPU = re.compile(r"\b(?:with|w/) ?Radeon|\bUltra (?:X?[3579] )?\d{3}[HUV]\b", re.I)


def add_processor_gpu(devices: list[ToldDevice], text: str, processor: str) -> None:
    """Add the GPU in `processor` if the text speaks of it, or tell which device it is."""
    makers = (maker for maker, words in _MAKERS if re.search(words, processor, re.I))
    told = form("clauses", "shared").search(text)
    maker = vendor_named_in(told[1]) if told and told[1] else next(makers, None)
    there = bool(told) and not form("clauses", "not_shared").search(text)
    own = [one for one in devices if one.vendor == maker]
    unnumbered = [one for one in own if not product_of(str(one.facts.get("name", "")))]
    if unnumbered and (there or _WITH_GPU.search(processor)):
        unnumbered[0].said.setdefault("kind", "igpu")
    elif maker and there and not any(finished(one).get("integrated") for one in own):
        devices.append(ToldDevice(maker, 0, said={"kind": "igpu"}, trust=DOUBT))
