"""Assembling a page as one file from the template, the style, the scripts and the columns."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from string import Template
from typing import Any

from gpuforge import __version__
from gpuforge.profiler.page.columns import pack
from gpuforge.profiler.page.sections import html

HERE = Path(__file__).parent
SCRIPTS = ("graph.js", "table.js", "flame.js", "timeline.js", "charts.js", "page.js")


def document(columns: dict[str, Any], *, title: str, program: str, **parts: str) -> str:
    """Return the page of `columns`.

    Parameters
    ----------
    title
        What it is: ``Profile`` or ``Difference``.
    program
        The command line, for the heading.
    **parts
        ``lead``, ``facts``, ``notes``, ``first``, ``paths`` and ``rest`` as HTML.
    """
    style = _asset("page.css")
    script = "(() => {\n'use strict';\n" + "".join(map(_asset, SCRIPTS)) + "})();\n"
    policy = (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)};"
        " img-src data:; base-uri 'none'; form-action 'none'"
    )
    return Template(_asset("page.html")).substitute(
        parts, policy=policy, style=style, script=script, data=pack(columns), version=__version__,
        title=f"{title}: {html(program, 80)}", flame_title="Call paths",
        heading=f"{title} of <code>{html(program, 200)}</code>",
    )  # fmt: skip


def _asset(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """Return the source expression of a content security policy for an inline element."""
    found = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{found}'"
