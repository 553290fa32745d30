"""Can the package index be reached?"""

from __future__ import annotations

import time
from collections.abc import Iterator

from gpuforge.diagnose.finding import Finding, of_cause
from gpuforge.diagnose.site import Site
from gpuforge.units import format_seconds

SUMMARY = "the package index answers"
NETWORK = True
SECONDS = 15.0

INDEX = "https://pypi.org/simple/pip/"
ANSWER_SECONDS = 10.0


def check(site: Site) -> Iterator[Finding]:
    """Request one small page from the index that pip would use."""
    index = site.probe.environ.get("PIP_INDEX_URL") or site.probe.environ.get("UV_INDEX_URL")
    address = f"{index.rstrip('/')}/pip/" if index else INDEX
    if not address.startswith(("https://", "http://", "file://")):
        yield Finding("error", f"the package index {index!r} is not a URL")
        return
    import urllib.request

    from gpuforge.diagnose.explanation import explain

    started = time.monotonic()
    try:
        with urllib.request.urlopen(address, timeout=ANSWER_SECONDS) as answer:
            answer.read(1)
    except (OSError, ValueError) as error:
        cause = explain(f"{type(error).__name__}: {error}").cause
        name = cause.cause if cause else "network_ssl_proxy_failure"
        yield of_cause(name, "error", "the package index does not answer", evidence=(str(error),))
        return
    yield Finding(
        "ok", f"the package index answers in {format_seconds(time.monotonic() - started)}"
    )
