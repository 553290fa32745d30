"""The parts of a page that are readable without scripts: sentences, facts and tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape

from gpuforge.profiler import names
from gpuforge.profiler.advise import Suggestion
from gpuforge.profiler.breakdown import breakdown
from gpuforge.profiler.model import DEVICE, HOST, LABELS, PROGRAM, Profile
from gpuforge.profiler.page.columns import LONGEST_NAME, Row
from gpuforge.profiler.rates import told
from gpuforge.profiler.regret import Regret, lost_told, regrets
from gpuforge.profiler.summary import first_line, machine, started, where_time, where_written
from gpuforge.profiler.tables import percent
from gpuforge.profiler.transfers import peaks_told, transfers
from gpuforge.units import format_bytes, format_ns, format_seconds

WORDS = {
    "host": "the program's own work",
    "wait": "waiting for a device",
    "transfer": "moving bytes",
    "overhead": "gpuforge's own work",
    "unexplained": "outside of any span",
}
MOST_PATHS = 25
MOST_PLACEMENTS = 500
MOST_HEADER = 20_000
"""Most characters of the recording's header."""

Cell = str | tuple[float, str]
"""Text, or a number to sort by and its text."""


def html(value: object, longest: int = LONGEST_NAME) -> str:
    """Return `value` as one line for an element or a quoted attribute."""
    return escape(names.line(value, longest))


def lead(profile: Profile, rows: Sequence[Row]) -> str:
    """Return the sentence on where the time went."""
    where = where_time(profile)
    if where is None:
        return f"{first_line(profile)}."
    shares = sorted(where.percent.items(), key=lambda share: -share[1])
    told = ", ".join(f"{share} % {WORDS[name]}" for name, share in shares if share)
    text = f"{format_ns(where.wall_ns)}: {told}."
    largest = _largest_place(profile, rows)
    if largest:
        place, share = largest
        where_spent = (
            "in code without a span of its own" if place == PROGRAM else f"in {place} itself"
        )
        text += (
            f" The largest part of the threads' time, {percent(share)}, was spent {where_spent}."
        )
    return html(text, 1000)


def _largest_place(profile: Profile, rows: Sequence[Row]) -> tuple[str, float] | None:
    """Return the function, operation or span of the user with the most own time, and its share.

    What gpuforge does inside a call counts for the function.
    """
    places: list[str] = []
    called: list[bool] = []
    sums: dict[str, int] = {}
    for path, above in rows:
        said = profile.spans.attributes.get(path.sample, {})
        file, line = where_written(said) if "direction" not in said else ("", 0)
        inside = above >= 0 and called[above]
        called.append(inside or "function" in said)
        name = names.line(path.name, 60)
        if file:
            name += f" ({file}:{line})"
        elif above >= 0 and (inside or profile.spans.label[path.sample] != HOST):
            name = places[above]
        places.append(name)
        sums[name] = sums.get(name, 0) + sum(path.own_label_ns[:DEVICE])
    whole = sum(sums.values())
    if not whole:
        return None
    place = max(sums, key=sums.__getitem__)
    return place, sums[place] / whole


def parts_section(profile: Profile) -> str:
    """Return a bar of the longest thread's time, and a table of all threads and devices."""
    where = where_time(profile)
    drawn = ""
    if where is not None:
        shares = {name: share for name, share in where.percent.items() if where.part_ns[name]}
        label = ", ".join(f"{WORDS[name]} {share} %" for name, share in shares.items())
        cells = "".join(f'<td width="{share}%" class="{name}">' for name, share in shares.items())
        legend = "".join(
            f'<li><span class="swatch {name}"></span>{WORDS[name]} <b>{share} %</b>'
            f" {format_ns(where.part_ns[name])}</li>"
            for name, share in shares.items()
        )
        drawn = (
            f'<p class="quiet">Time of {html(where.thread)}, the thread with the longest time.</p>'
            f'<div role="img" aria-label="{label}"><table class="parts" role="presentation">'
            f'<tr>{cells}</table></div><ul class="legend">{legend}</ul>'
        )
    parts = breakdown(profile)
    labels = [label for label in range(len(LABELS)) if any(part.label_ns[label] for part in parts)]
    rows: list[list[Cell]] = [
        [
            profile.lanes[part.lane].name,
            profile.lanes[part.lane].kind,
            _number(part.wall_ns),
            *[_number(part.label_ns[label]) for label in labels],
            _number(part.unexplained_ns),
            _bytes(part.bytes),
        ]
        for part in parts
    ]
    titles = [
        "thread or device", "kind", "wall", *[LABELS[label] for label in labels], "no span", "bytes"
    ]  # fmt: skip
    lanes = table("lanes", "Each thread, and each queue of a device", titles, rows, first=2)
    return section("parts", "Where the time went", drawn + lanes)


def _number(ns: int) -> Cell:
    return (ns, format_ns(ns) if ns else "")


def _bytes(count: int) -> Cell:
    return (count, format_bytes(count) if count else "")


def suggestions_section(found: Sequence[Suggestion]) -> str:
    """Return the suggestions, most promising first."""
    text = "<p>No rule found anything to suggest.</p>"
    if found:
        text = (
            '<p class="quiet">What each could save at most, computed from this run.</p>'
            f'<ol class="cards">{"".join(map(_suggestion, found))}</ol>'
        )
    return section("suggestions", "Suggestions", text)


def _suggestion(one: Suggestion) -> str:
    bound = f"at most {format_seconds(one.bound_seconds)}, {percent(one.bound_share)}"
    evidence = "".join(f"<li>{html(text, 500)}</li>" for text in one.evidence)
    where = f"{one.file}:{one.line}" if one.file else ""
    told = [
        html(one.advice, 1000),
        where and f"Where: <code>{html(where)}</code>",
        one.check_command and f"Check: <code>{html(one.check_command)}</code>",
        one.rule and f"Rule: {html(one.rule)}",
    ]
    return (
        f"<li><details><summary><b>{html(one.title)}</b>"
        f'<span class="bound">{bound if one.bound_seconds else ""}</span></summary>'
        f"<ul>{evidence}</ul>{''.join(f'<p>{text}</p>' for text in told if text)}</details></li>"
    )


def placements_section(profile: Profile) -> str:
    """Return the table of placements, those that lost most first."""
    found = regrets(profile)
    if not found:
        return ""
    alike: dict[tuple[str, ...], list[Regret]] = {}
    for regret in found:
        one = regret.placement
        key = one.function, one.signature, one.backend, regret.best, one.reason
        alike.setdefault(key, []).append(regret)
    text = f"<p>{lost_told(found)} Times are per call; losses are totals.</p>"
    rows = [_placement(key, regrets) for key, regrets in alike.items()]
    rows.sort(key=lambda row: -float(row[8][0]))
    if len(rows) > MOST_PLACEMENTS:
        text += f"<p>The {MOST_PLACEMENTS} of {len(rows):,} with the largest losses are shown.</p>"
    titles = [
        "function", "arguments", "ran on", "best", "calls", "took", "predicted", "best took",
        "lost", "reason",
    ]  # fmt: skip
    made = table("placed", "Where calls ran", titles, rows[:MOST_PLACEMENTS], first=4, last=8)
    return section("placements", "Placements", text + made)


def _placement(key: tuple[str, ...], found: list[Regret]) -> list[Cell]:
    """Return the row of identical choices."""
    function, signature, backend, best, reason = key
    calls = sum(regret.placement.calls for regret in found)
    took = sum(regret.placement.seconds for regret in found) / calls
    lost = sum(regret.lost_seconds for regret in found)
    known = [p for regret in found if (p := regret.predicted_seconds) is not None]
    predicted = sum(known) / len(known) if known else 0.0
    least = found[0].best_seconds
    told = format_seconds(least) + ("" if found[0].measured else " (predicted)")
    return [
        function, signature, backend, best, (calls, f"{calls:,}"), (took, format_seconds(took)),
        (predicted, format_seconds(predicted) if known else ""), (least, told),
        (lost, format_seconds(lost) if lost else ""), reason,
    ]  # fmt: skip


def transfers_section(profile: Profile) -> str:
    """Return the table of transfers by device, with their speed as a share of the link's peak."""
    found = transfers(profile)
    rows: list[list[Cell]] = [
        [
            one.way or "not known", (one.count, f"{one.count:,}"),
            _bytes(one.bytes), _number(round(one.seconds * 1e9)),
            (one.bytes_per_second or 0, one.speed),
            one.of_peak,
        ]
        for one in found
    ]  # fmt: skip
    titles = ["direction", "count", "bytes", "time", "speed", "of the link's peak"]
    text = f"<p>{html(peaks_told(found), 2000)}</p>"
    made = table("moved", "Bytes moved to and from devices", titles, rows)
    return section("transfers", "Transfers", text + made) if found else ""


def paths_table(rows: Sequence[Row]) -> str:
    """Return the call paths with the most own time; the script replaces them with all paths."""
    largest = sorted(rows, key=lambda row: -row.path.own_ns)[:MOST_PATHS]
    cells: list[list[Cell]] = [
        [
            names.path(path.names, 120),
            (path.count, f"{path.count:,}"),
            *map(_number, (path.own_ns, path.total_ns, *path.label_ns)),
            _bytes(path.bytes),
        ]
        for path, _ in largest
    ]
    titles = ["call path", "spans", "own", "total", *LABELS, "bytes"]
    return table("paths", f"The {len(cells)} largest call paths", titles, cells)


def facts(rows: dict[str, str]) -> str:
    """Return a definition list."""
    told = "".join(f"<dt>{name}</dt><dd>{html(text, 2000)}</dd>" for name, text in rows.items())
    return f'<dl class="facts">{told}</dl>'


def what_ran(profile: Profile) -> str:
    """Return the start, versions and machine of the run."""
    header, began = profile.header, started(profile)
    own = {"gpuforge": header.get("gpuforge"), "Python": header.get("python")}
    known = own | profile.said("versions")
    return facts({
        "Started": began.astimezone().strftime("%Y-%m-%d %H:%M:%S %z") if began else "unknown",
        "Versions": ", ".join(f"{name} {version}" for name, version in known.items() if version),
        "Machine": machine(profile),
    })  # fmt: skip


def notes(found: Sequence[str]) -> str:
    """Return the list of notes about the recording and the page."""
    items = "".join(f"<li>{html(note, 1000)}</li>" for note in found)
    return f'<ul class="notes" aria-label="Notes">{items}</ul>' if items else ""


def header_section(profile: Profile) -> str:
    """Return the section with the header of the recording."""
    known = {
        "Peaks": "; ".join(f"{name} {what}: {rate}" for name, what, rate, _ in told(profile)),
        "Not known": "; ".join(f"{what}: {why}" for what, why in profile.said("unknown").items()),
    }
    text = json.dumps(profile.header, indent=1, default=str)[:MOST_HEADER]
    lines = "\n".join(html(line.replace(" ", "\xa0"), 500) for line in text.split("\n"))
    return section(
        "header",
        "About this run",
        facts({name: text for name, text in known.items() if text})
        + f'<details><summary>The header of the recording</summary><pre tabindex="0">{lines}</pre>'
        "</details>",
    )


def section(name: str, title: str, content: str) -> str:
    """Return a section with its heading."""
    return (
        f'<section id="{name}" aria-labelledby="{name}-title">'
        f'<h2 id="{name}-title">{title}</h2>{content}</section>'
    )


def table(
    name: str, caption: str, titles: Sequence[str], rows: Sequence[Sequence[Cell]], *,
    first: int = 1, last: int = 99,
) -> str:  # fmt: skip
    """Return a table that the script can sort; columns `first` to `last` contain numbers."""
    number = [' class="number"' if first <= at <= last else "" for at in range(len(titles))]
    head = "".join(
        f'<th scope="col"{kind}>{title}</th>' for kind, title in zip(number, titles, strict=True)
    )
    # HTML allows the end tags of rows and cells to be omitted.
    body = "".join(
        f'<tr><th scope="row">{html(row[0])}{"".join(map(_cell, row[1:], number[1:]))}'
        for row in rows
    )
    return (
        f'<div class="scroll" role="region" aria-label="{html(caption)}" tabindex="0">'
        f'<table id="{name}" class="sortable"><caption>{html(caption)}</caption>'
        f"<thead><tr>{head}</thead><tbody>{body}</tbody></table></div>"
    )


def _cell(cell: Cell, kind: str) -> str:
    text, value = (cell, "") if isinstance(cell, str) else (cell[1], f' data-value="{cell[0]}"')
    return f"<td{kind}{value}>{html(text)}"
