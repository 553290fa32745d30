"""Do compiled extensions find what they were built to find in the installed framework?"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from contextlib import ExitStack, closing

from gpuforge.diagnose.distribution import Distribution
from gpuforge.diagnose.finding import Finding, of_cause
from gpuforge.diagnose.shared_library import Offered, asked_of, hash_of, needs_of
from gpuforge.diagnose.site import Site

SUMMARY = "compiled extensions fit the installed PyTorch"

# Libraries of an extension that are looked at, and symbols of each; all if the check is named.
LIBRARIES, SYMBOLS = 2, 300
# The libraries of a framework, and the names of C++ that only these offer.
FRAMEWORKS = {
    "torch": (
        re.compile(r"torch/lib/lib(?:c10|torch)\w*\.so"),
        re.compile(rb"_ZN?K?(?:T[IVS])?N?(?:3c10|2at|5torch)"),
    ),
}
_OF_A_GPU = re.compile(r"lib(?:c10|torch)_(cuda|hip|xpu)\.so")
_OF_TORCH = re.compile(r"lib(?:c10|torch)")
# They look at the version of PyTorch first, and work without their compiled part.
GUARDED = {"torchao", "xformers"}
_PINNED = r"\(?\s*==\s*\d[\w.]*(?!.*\*)"


def check(site: Site) -> Iterator[Finding]:
    """Yield each package with a library that lacks symbols of a framework."""
    found = [finding for name in FRAMEWORKS for finding in _unfit(site, name)]
    yield from found or [Finding("ok", "no extension lacks anything of a framework")]


def _unfit(site: Site, name: str) -> Iterator[Finding]:
    framework = site.distribution(name)
    if framework is None:
        return
    libraries, like = FRAMEWORKS[name]
    paths = [path for path, _ in framework.libraries if libraries.fullmatch(path)]
    places = [f"{framework.folder}/{path}" for path in sorted(paths, key=len)]
    with ExitStack() as opened:
        offers = _Offers(opened)
        for one in site.distributions if places else ():
            if one is framework or one.name in GUARDED or not _may_extend(one, name):
                continue
            if lacking := _lacking(site, one, places, like, offers):
                message = (
                    f"{one.name} {one.version} was built for another {framework.name} than"
                    f" {framework.version}: its compiled part cannot be loaded"
                )
                yield of_cause("torch_extension_abi_mismatch", "error", message, evidence=lacking)


def _may_extend(one: Distribution, name: str) -> bool:
    """Return whether a package may link to a framework and does not require one exact version."""
    lines = [line for line in one.requirements if re.match(rf"{name}\b(?!-)", line)]
    if not one.libraries or any(re.match(rf"{name}\s*{_PINNED}", line) for line in lines):
        return False
    return bool(lines) or name in one.metadata.lower()


def _lacking(
    site: Site, one: Distribution, places: list[str], like: re.Pattern[bytes], offers: _Offers
) -> tuple[str, str] | None:
    """Return a library, and what nothing it is linked to offers; None if all is there."""
    own = [path for path, _ in one.libraries if path.endswith(".so")]
    for path in own if site.thorough else own[:LIBRARIES]:
        place = f"{one.folder}/{path}"
        names, needs = asked_of(place, like), needs_of(place)
        lost = [n for n in needs.libraries if not site.loader.find(n, needs.folders)]
        of_a_gpu = next(filter(_OF_A_GPU.fullmatch, lost), "")
        if of_a_gpu:
            return place, f"it needs {of_a_gpu}, of a build for GPUs"
        if not names:
            continue
        linked, todo = list(places), [place]
        for path_of in todo:
            needs = needs_of(path_of)
            for library in needs.libraries:
                at = site.loader.find(library, needs.folders)
                if at is None:
                    return None  # which another check reports
                own_or_torchs = at.startswith(str(one.folder)) or _OF_TORCH.match(library)
                if at not in (*linked, *todo) and own_or_torchs:
                    todo.append(at)  # conda's PyTorch keeps its libraries elsewhere
        offered = [part for library in (*linked, *todo[1:]) if (part := offers.of(library))]
        if len(offered) < len(linked) + len(todo) - 1:
            return None  # one that cannot be read may offer what is looked for
        for name in names if site.thorough else names[:SYMBOLS]:
            hashed = hash_of(name)
            if not any(part.has(name, hashed) for part in offered):
                return place, f"undefined symbol: {name.decode()}"
    return None


class _Offers:
    """The tables of libraries, each opened once."""

    def __init__(self, opened: ExitStack) -> None:
        self._opened = opened
        self._known: dict[str, Offered | None] = {}

    def of(self, path: str) -> Offered | None:
        """Return what a library offers; None if it cannot be read."""
        if path not in self._known:
            try:
                self._known[path] = self._opened.enter_context(closing(Offered(path)))
            except (OSError, ValueError, KeyError, StopIteration, struct.error):
                self._known[path] = None
        return self._known[path]
