"""The page in a real headless Chromium: it lives, survives, is open to all, and stays here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.monitor.conftest import TOKEN, Dashboard, eventually
from tests.monitor.made_sample import HOSTILE, Producer


class Look:
    """A page of a dashboard, with what it asked for and what went wrong in it."""

    def __init__(self, page: Any, dashboard: Dashboard) -> None:
        self.page, self.dashboard = page, dashboard
        self.asked: list[str] = []
        self.wrong: list[str] = []
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on(
            "console",
            lambda m: self.wrong.append(m.text) if m.type in ("error", "warning") else None,
        )
        page.goto(f"{dashboard.address}/?token={TOKEN}")
        page.wait_for_selector("figure canvas")
        page.wait_for_selector("#facts table")
        page.wait_for_selector("#processes table")

    def text(self, selector: str) -> str:
        return str(self.page.inner_text(selector))

    def says(self, selector: str, words: str) -> None:
        """Wait until an element holds `words`."""
        self.page.wait_for_function(
            "([s, w]) => document.querySelector(s)?.innerText.includes(w)", arg=[selector, words]
        )


@pytest.fixture
def look(chromium: Any, dashboard: Dashboard, tmp_path: Path) -> Iterator[Look]:
    context = chromium.new_context(color_scheme="light")
    yield Look(context.new_page(), dashboard)
    context.close()


def test_values_change_and_nothing_is_asked_of_others(look: Look) -> None:
    assert look.page.url == look.dashboard.address + "/", "the token is gone from the address"
    assert look.text("#connection") == "live"
    shown = look.text("#processes")
    look.page.wait_for_function(
        "was => document.querySelector('#processes').innerText !== was", arg=shown
    )
    for title in ("Busy share of the time", "Share of memory in use", "Temperature", "Power"):
        assert title in look.text("#charts")
    look.says("#anomalies", "slowed down by temperature")
    look.says("#anomalies", "the PCIe link has 4 lanes of 16")
    assert look.asked
    assert all(url.startswith((look.dashboard.address, "data:,")) for url in look.asked)
    assert look.wrong == []


def test_hostile_names_are_text(look: Look) -> None:
    for place in ("#processes", "#placements", "#facts"):
        assert HOSTILE in look.text(place)
    assert look.page.title() == "gpuforge"
    assert look.page.query_selector_all("img, main script, main b") == []
    assert look.wrong == []


def test_pressure_is_a_list_of_events_that_outlives_its_program(look: Look) -> None:
    look.says("#pressure", "ran out; NumPy ran the call")
    look.says("#pressure", "5 GiB")
    look.says("#pressure", "Totals of running programs")
    look.dashboard.producer.programs = 0
    look.says("#processes", "None of your gpuforge processes are running.")
    look.page.wait_for_function(
        "() => !document.querySelector('#pressure').innerText.includes('that run')"
    )
    look.says("#pressure", "train.py (4711)")
    assert look.wrong == []


def test_the_keyboard_reaches_the_table_behind_each_chart(look: Look) -> None:
    page = look.page
    look.dashboard.producer.fails = True  # what is read twice must not change in between
    look.says("#connection", "the driver does not answer")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the readings"
    opened: list[str] = []
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate(
            "document.activeElement.matches('figure:not(:has(details[open])) summary')"
        ):
            page.keyboard.press("Enter")
            opened.append(page.evaluate("document.activeElement.textContent"))
    figures = page.query_selector_all("figure")
    assert len(opened) == len(figures) == 6
    for figure in figures:
        lines = [re.sub(r": .*", "", item.inner_text()) for item in figure.query_selector_all("li")]
        heads = [cell.inner_text() for cell in figure.query_selector_all("th[scope=col]")]
        assert heads == ["Time", *lines]
        now = [item.inner_text().split(": ", 1)[1] for item in figure.query_selector_all("li")]
        newest = [
            cell.inner_text() for cell in figure.query_selector_all("tbody tr:first-child td")
        ]
        assert newest == now
        label = figure.query_selector("[role=img]").get_attribute("aria-label")
        assert all(f"{name} {value}" in label for name, value in zip(lines, now, strict=True))


def test_it_survives_a_reload_and_keeps_what_was(look: Look) -> None:
    points = "charts[0].moments.length"
    eventually(lambda: look.page.evaluate(points) > 8, "some points")
    look.page.reload()
    look.page.wait_for_selector("figure canvas")
    assert look.page.evaluate(points) > 8
    look.says("#connection", "live")
    look.page.select_option("#theme", "dark")
    look.page.reload()
    assert look.page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert look.wrong == []


def test_it_survives_a_dead_producer(look: Look) -> None:
    producer = look.dashboard.producer
    look.says("#processes", "(4712)")
    producer.programs = 1
    look.page.wait_for_function(
        "() => !document.querySelector('#processes').innerText.includes('(4712)')"
    )
    producer.programs = 0
    look.says("#processes", "None of your gpuforge processes are running.")
    producer.fails = True
    look.says("#connection", "no reading could be taken: OSError: the driver does not answer")
    assert look.page.get_attribute("#connection", "data-state") == "lost"
    producer.fails, producer.programs = False, 2
    look.says("#connection", "live")
    look.says("#processes", "(4712)")
    producer.goes_on.clear()
    look.says("#connection", "no new reading for")
    producer.goes_on.set()
    look.says("#connection", "live")
    assert look.wrong == []


def test_it_survives_the_server(chromium: Any, serve: Callable[..., Dashboard]) -> None:
    first = serve()
    context = chromium.new_context()
    look = Look(context.new_page(), first)
    first.stop()
    look.says("#connection", "the server does not answer; trying again")
    second = serve(Producer(past=300), port=first.port)
    look.says("#connection", "live")
    second.stop()
    serve(Producer(), port=first.port, token="another-token-of-24-chars")
    look.says("#connection", "the server was restarted: open the address that it printed")
    context.close()


def test_a_report_opens_from_the_page_and_reaches_nothing(
    chromium: Any, serve: Callable[..., Dashboard], tmp_path: Path
) -> None:
    import gpuforge as gf

    with gf.profile(tmp_path / "run.gfp"), gf.span(HOSTILE):
        pass
    context = chromium.new_context()
    wrong: list[str] = []
    # Asked of the context, not of the page: when the page is known, its script may have run. It
    # cannot be loaded again before it has come: Chromium swaps the empty page for it first.
    context.on("weberror", lambda error: wrong.append(str(error.error)))
    look = Look(context.new_page(), serve(sessions=tmp_path))
    look.says("#sessions", "run.gfp")
    with context.expect_page() as opened:
        look.page.click("#sessions a")
    report = opened.value
    report.wait_for_selector("table")
    assert "gpuforge" in report.title() or "Profile" in report.title()
    assert report.evaluate("self.origin") == "null", "it is no page of the dashboard's origin"
    assert wrong == []
    context.close()


def test_a_new_program_gets_its_line(look: Look) -> None:
    look.dashboard.producer.programs = 3
    look.says("#chart-queue", "process 4713")
    assert look.wrong == []


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])
def test_axe_finds_nothing(
    chromium: Any, dashboard: Dashboard, axe: str, scheme: str, width: int
) -> None:
    context = chromium.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
    look = Look(context.new_page(), dashboard)
    look.page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    look.page.wait_for_selector("figure table")
    look.page.evaluate(axe)
    found = look.page.evaluate("axe.run(document, { resultTypes: ['violations', 'incomplete'] })")
    assert len(found["passes"]) > 20
    assert [(v["id"], [n["html"] for n in v["nodes"]][:3]) for v in found["violations"]] == []
    context.close()
