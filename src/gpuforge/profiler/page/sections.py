"""The parts of a page that can be read without scripts: sentences, facts and tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Protocol

from gpuforge.profiler.breakdown import Breakdown
from gpuforge.profiler.model import LABELS, Placement, Profile
from gpuforge.profiler.page.columns import Row, place
from gpuforge.profiler.page.text import html
from gpuforge.units import format_bytes, format_seconds

WORDS = ("the program's own work", "waiting for a device", "moving bytes", "gpuforge's own work")
"""What the time of a thread was, by label."""
UNEXPLAINED = "outside of any span"
MOST_PLACEMENTS = 500
MOST_FACTS = 20_000
"""Characters of what is known of the machine."""

Cell = str | tuple[float, str]
"""Text, or a number to sort by and the text that shows it."""


class Suggestion(Protocol):
    """What to change, why, and by how much it could help at most."""

    rule: str
    title: str
    evidence: list[str]
    bound_seconds: float
    bound_share: float
    advice: str
    check_command: str
    file: str | None
    line: int | None


def seconds(ns: float) -> str:
    """Return a time in nanoseconds as text."""
    return format_seconds(ns * 1e-9)


def percent(part: float, whole: float) -> str:
    """Return a share as text; a dash where there is no whole."""
    if not whole:
        return "–"
    share = 100 * part / whole
    return f"{share:.0f} %" if share >= 9.95 else "< 0.1 %" if 0 < share < 0.05 else f"{share:.1f} %"


def thread_parts(profile: Profile, parts: Sequence[Breakdown]) -> list[tuple[str, str, int]]:
    """Return key, words and time of what the threads' time was, without the empty ones."""
    threads = [part for part in parts if profile.lanes[part.lane].kind != "device"]
    found = [
        (LABELS[label], words, sum(part.label_ns[label] for part in threads))
        for label, words in enumerate(WORDS)
    ]
    found.append(("none", UNEXPLAINED, sum(part.unexplained_ns for part in threads)))
    return [row for row in found if row[2]]


def lead(profile: Profile, parts: Sequence[Breakdown], rows: Sequence[Row]) -> str:
    """Return the sentence that says where the time went."""
    shares = thread_parts(profile, parts)
    whole = sum(ns for _, _, ns in shares)
    if not whole:
        return f"{seconds(profile.wall_ns)}, of which no span of a thread tells anything."
    threads = sum(profile.lanes[part.lane].kind != "device" for part in parts)
    of = f"{seconds(whole)} of {threads} threads in " if threads > 1 else ""
    moved = sum(part.bytes for part in parts if profile.lanes[part.lane].kind != "device")
    told = [
        f"{percent(ns, whole)} {words}"
        + (f" ({format_bytes(moved)})" if key == "transfer" and moved else "")
        for key, words, ns in sorted(shares, key=lambda share: -share[2])
    ]
    text = f"{of}{seconds(profile.wall_ns)}: {', '.join(told)}."
    most = max(rows, key=lambda row: sum(row.path.own_label_ns[:4]), default=None)
    if most is not None:
        own = sum(most.path.own_label_ns[:4])
        at = place(profile.spans.attributes.get(most.path.sample, {}))
        text += f" Most of it, {percent(own, whole)}, in {most.path.name}{f' ({at})' if at else ''}."
    return html(text, 1000)


def parts_section(profile: Profile, parts: Sequence[Breakdown]) -> str:
    """Return the bar and the table of what each thread and device did."""
    shares = thread_parts(profile, parts)
    whole = sum(ns for _, _, ns in shares)
    bar, x = [], 0.0
    for key, words, ns in shares:
        width = 100 * ns / whole
        bar.append(
            f'<svg x="{x:.3f}%" width="{width:.3f}%" height="100%" overflow="hidden">'
            f'<rect class="fill {key}" width="100%" height="100%"/>'
            f'<rect class="over {key}" width="100%" height="100%"/>'
            f"<title>{words}: {seconds(ns)}</title></svg>"
        )
        x += width
    rows: list[list[Cell]] = [
        [
            f"{profile.lanes[part.lane].name}",
            profile.lanes[part.lane].kind,
            *[_time(ns) for ns in (part.wall_ns, *part.label_ns, part.unexplained_ns)],
            (part.bytes, format_bytes(part.bytes) if part.bytes else ""),
        ]
        for part in parts
    ]
    titles = ["thread or device", "kind", "wall", *LABELS, "no span", "bytes"]
    label = ", ".join(f"{words} {percent(ns, whole)}" for _, words, ns in shares)
    drawn = f'<svg class="parts" role="img" aria-label="{label}">{"".join(bar)}</svg>' if bar else ""
    legend = "".join(
        f'<li><span class="swatch {key}"></span>{words} <b>{percent(ns, whole)}</b>'
        f" {seconds(ns)}</li>"
        for key, words, ns in shares
    )
    return section(
        "parts", "Where the time went",
        f'{drawn}<ul class="legend">{legend}</ul>'
        + table("lanes", "Each thread, and each queue of a device", titles, rows, numbers=2),
    )  # fmt: skip


def _time(ns: int) -> Cell:
    return (ns, seconds(ns) if ns else "")


def suggestions_section(found: Sequence[Suggestion]) -> str:
    """Return what to change, the most promising first."""
    if not found:
        return section("suggestions", "Suggestions", "<p>No rule found anything to suggest.</p>")
    items = []
    for each in sorted(found, key=lambda suggestion: -suggestion.bound_seconds):
        at = place({"file": each.file, "line": each.line})
        evidence = "".join(f"<li>{html(row, 500)}</li>" for row in each.evidence)
        items.append(
            f"<li><details><summary><b>{html(each.title)}</b>"
            f'<span class="bound">at most {percent(each.bound_share, 1)},'
            f" {format_seconds(each.bound_seconds)}</span></summary>"
            f"<p>{html(each.advice, 1000)}</p><ul>{evidence}</ul>"
            + (f"<p>At <code>{html(at)}</code></p>" if at else "")
            + f"<p>Check it: <code>{html(each.check_command)}</code> (rule {html(each.rule)})</p>"
            "</details></li>"
        )
    text = (
        '<p class="quiet">What each could save at most, computed from this run; not a promise.</p>'
        f'<ol class="cards">{"".join(items)}</ol>'
    )
    return section("suggestions", "Suggestions", text)


def placements_section(placements: Sequence[Placement]) -> str:
    """Return the choices of backends, those that cost most first."""
    if not placements:
        return ""
    ordered = sorted(placements, key=lambda each: -(regret_seconds(each) or 0))
    rows: list[list[Cell]] = []
    for each in ordered[:MOST_PLACEMENTS]:
        calls, regret = max(each.calls, 1), regret_seconds(each)
        there = each.predicted_seconds.get(each.backend)
        others = sorted((s, name) for name, s in each.predicted_seconds.items())
        rows.append([
            each.function, each.signature, each.backend, (each.calls, f"{each.calls:,}"),
            (each.seconds / calls, format_seconds(each.seconds / calls)),
            (-1, "") if there is None else (there, format_seconds(there)),
            (-1, "") if regret is None else (
                regret, f"{format_seconds(regret)}, {percent(regret, each.seconds)}"
            ),
            "; ".join(f"{name} {format_seconds(s)}" for s, name in others),
            each.reason,
        ])  # fmt: skip
    titles = [
        "function", "arguments", "ran on", "calls", "a call took", "predicted", "regret",
        "predictions for a call", "why there",
    ]  # fmt: skip
    known = [s for s in map(regret_seconds, placements) if s is not None]
    lost, all_of = sum(known), sum(each.seconds for each in placements)
    text = (
        f"<p>{len(placements):,} choices, whose calls took {format_seconds(all_of)}. The best"
        f" predictions would have saved {format_seconds(lost)} of it, {percent(lost, all_of)}."
        " Regret is what calls took beyond the lowest prediction for any backend.</p>"
    )
    if len(placements) > MOST_PLACEMENTS:
        text += f"<p>The {MOST_PLACEMENTS} with the highest regret are shown.</p>"
    return section(
        "placements", "Placements",
        text + table("placed", "Where calls ran", titles, rows, numbers=3, until=7),
    )  # fmt: skip


def regret_seconds(placement: Placement) -> float | None:
    """Return what the calls took beyond the lowest prediction; None where none was made."""
    if not placement.predicted_seconds:
        return None
    best = min(placement.predicted_seconds.values()) * placement.calls
    return max(placement.seconds - best, 0.0)


def paths_table(rows: Sequence[Row], most: int = 25) -> str:
    """Return the call paths with the most time of their own; `page.js` puts all in their place."""
    ordered = sorted(rows, key=lambda row: -row.path.own_ns)[:most]
    cells: list[list[Cell]] = [
        [
            " › ".join(row.path.names),
            (row.path.count, f"{row.path.count:,}"),
            *[_time(ns) for ns in (row.path.own_ns, row.path.total_ns, *row.path.label_ns)],
            (row.path.bytes, format_bytes(row.path.bytes) if row.path.bytes else ""),
        ]
        for row in ordered
    ]
    titles = ["call path", "spans", "own", "total", *LABELS, "bytes"]
    return table("paths", f"The {len(cells)} largest call paths", titles, cells, wrapped=False)


def facts(rows: Iterable[tuple[str, object]]) -> str:
    """Return names and values, those that are known."""
    told = "".join(f"<dt>{name}</dt><dd>{html(value, 500)}</dd>" for name, value in rows if value)
    return f'<dl class="facts">{told}</dl>'


def profile_facts(profile: Profile) -> str:
    """Return what ran, when, on what, and what the recording cost."""
    header = profile.header
    started = header.get("started")
    versions = {"python": header.get("python"), **(header.get("versions") or {})}
    share = percent(profile.cost_ns, profile.wall_ns)
    return facts([
        ("Command", profile.program),
        ("Started", started and f"{datetime.fromtimestamp(started).astimezone():%Y-%m-%d %H:%M:%S %z}"),
        ("gpuforge", header.get("gpuforge")),
        ("Versions", ", ".join(f"{name} {version}" for name, version in versions.items() if version)),
        ("Machine", _machine(profile)),
        ("Recording", f"{len(profile.spans):,} spans, cost about {seconds(profile.cost_ns)} ({share})"),
    ])  # fmt: skip


def _machine(profile: Profile) -> str:
    machine = profile.header.get("machine") or {}
    host = machine.get("host") or {}
    memory = host.get("memory_total_bytes")
    told = [
        profile.header.get("platform") or host.get("platform"), host.get("cpu_model"),
        host.get("cores") and f"{host['cores']} cores", memory and format_bytes(memory),
        *[device.get("name") for device in machine.get("devices") or ()],
    ]  # fmt: skip
    return ", ".join(str(part) for part in told if part)


def notes(found: Sequence[str], complete: bool = True) -> str:
    """Return what a reader must know of the recording."""
    told = list(found)
    if not complete:
        told.insert(0, "The recording is incomplete: the program ended before it was closed.")
    items = "".join(f"<li>{html(note, 1000)}</li>" for note in told)
    return f'<ul class="notes" aria-label="Notes">{items}</ul>' if items else ""


def machine_section(profile: Profile) -> str:
    """Return all that is known of the machine and of what could not be read."""
    known = {key: value for key, value in profile.header.items() if key != "program" and value}
    text = json.dumps(known, indent=1, default=str)
    return section(
        "machine", "What is known of the run",
        '<details><summary>The header of the recording</summary>'
        f'<pre tabindex="0">{html_lines(text[:MOST_FACTS])}</pre></details>',
    )  # fmt: skip


def html_lines(text: str) -> str:
    """Return text of several lines for an element."""
    return "\n".join(html(line, 2000) for line in text.split("\n"))


def section(name: str, title: str, content: str) -> str:
    """Return a section with its heading."""
    return (
        f'<section id="{name}" aria-labelledby="{name}-title">'
        f'<h2 id="{name}-title">{title}</h2>{content}</section>'
    )


def table(
    name: str, caption: str, titles: Sequence[str], rows: Sequence[Sequence[Cell]], *,
    numbers: int = 1, until: int = 99, wrapped: bool = True,
) -> str:  # fmt: skip
    """Return a table that scripts can sort; the columns from `numbers` to `until` hold numbers."""
    head = "".join(
        f'<th scope="col"{_number(at, numbers, until)}>{title}</th>' for at, title in enumerate(titles)
    )
    body = "".join(
        "<tr>" + "".join(_cell(at, cell, numbers, until) for at, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    made = (
        f'<table id="{name}" class="sortable"><caption>{html(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )
    if not wrapped:
        return made
    return f'<div class="scroll" role="region" aria-label="{html(caption)}" tabindex="0">{made}</div>'


def _number(at: int, numbers: int, until: int) -> str:
    return ' class="number"' if numbers <= at < until else ""


def _cell(at: int, cell: Cell, numbers: int, until: int) -> str:
    text, value = (cell, "") if isinstance(cell, str) else (cell[1], f' data-value="{cell[0]}"')
    if at == 0:
        return f'<th scope="row"><bdi>{html(text)}</bdi></th>'
    return f"<td{_number(at, numbers, until)}{value}>{html(text)}</td>"
