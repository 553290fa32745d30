"""The HTML page in a real browser: by keyboard, by screen reader, on paper, and without a network.

The browser is Chromium, driven by the package ``playwright``; the rules of accessibility are those
of axe-core, whose ``axe.min.js`` is looked for at ``AXE_CORE`` and else fetched by npm.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuforge.profiler.breakdown import breakdown, total_ns
from gpuforge.profiler.formats import html
from gpuforge.profiler.model import LABELS, Profile, Series
from gpuforge.profiler.page.difference import render_difference
from gpuforge.units import format_bytes, format_seconds
from tests.profiler.made import Making
from tests.profiler.realistic import realistic
from tests.profiler.test_html import HOSTILE, hostile

DESKTOP = {"width": 1280, "height": 800}
Open = Callable[..., Any]


@pytest.fixture
def opened(chromium: Any, tmp_path: Path) -> Iterator[Open]:
    """Open pages; at the end, fail on any request, message on the console, or exception."""
    contexts: list[Any] = []
    complaints: list[str] = []

    def opens(text: str, fragment: str = "", before: str = "", **options: Any) -> Any:
        path = tmp_path / f"{len(contexts)}.html"
        path.write_text(text, encoding="utf-8")
        contexts.append(chromium.new_context(**{"viewport": DESKTOP} | options))
        page = contexts[-1].new_page()
        page.add_init_script(before)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(f"dialog {dialog.message}"))
        page.on(
            "request",
            lambda sent: sent.url.startswith(path.as_uri()) or complaints.append(sent.url),
        )
        page.goto(path.as_uri() + fragment)
        page.wait_for_selector("#contents li, #failure:not([hidden])")
        return page

    yield opens
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture(scope="module")
def text() -> str:
    return html.render(realistic())


def focused(page: Any, attribute: str = "aria-label") -> str:
    return str(page.evaluate("name => document.activeElement.getAttribute(name)", attribute))


def press(page: Any, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def enter(page: Any, graph: str) -> None:
    """Walk into a graph as a keyboard does, by Tab alone."""
    inside = f"document.activeElement.closest('#{graph}') !== null"
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate(inside):
            return
    raise AssertionError(f"Tab never reaches {graph}")


def test_the_flame_graph_is_walked_by_keyboard(opened: Open, text: str) -> None:
    page = opened(text)
    enter(page, "flame-graph")
    stops = "document.querySelectorAll('#flame-graph [tabindex=\"0\"]').length"
    assert focused(page).startswith("everything 3.53 s, 100 % of ")
    press(page, "ArrowDown")
    first = focused(page)
    assert focused(page, "aria-level") == "2"
    press(page, "ArrowRight")
    assert focused(page) != first
    press(page, "ArrowLeft")
    assert focused(page) == first
    press(page, "ArrowDown")
    assert focused(page).startswith("step ")
    assert page.inner_text("#flame-detail").startswith("main of loader-0 › step (train.py:88): ")
    press(page, "Enter")
    assert "step fills the flame graph" in page.inner_text("#status")
    assert focused(page).startswith("step ")
    assert "path=" in page.url
    wide = "document.activeElement.getBoundingClientRect().width"
    assert page.evaluate(wide) > 1000
    press(page, "Escape")
    assert "main of loader-0 fills" in page.inner_text("#status")
    press(page, "0")
    assert "path=" not in page.url
    assert page.evaluate(stops) == 1
    press(page, "Tab")
    assert page.evaluate("document.activeElement.closest('#flame-graph')") is None


def test_the_width_is_any_of_what_was_measured(opened: Open, text: str) -> None:
    page, profile = opened(text), realistic()
    parts = breakdown(profile)
    times = dict(zip(LABELS, total_ns(parts), strict=True))
    wanted = {name: format_seconds(ns / 1e9) for name, ns in times.items()}
    wanted["bytes"] = format_bytes(sum(part.bytes for part in parts))
    wanted["total"] = format_seconds((sum(times.values()) - times["device"]) / 1e9)
    for measure, total in wanted.items():
        page.select_option("#measure", measure)
        root = page.get_attribute("#flame-graph .box >> nth=0", "aria-label")
        assert root.startswith(f"everything {total}, 100 %"), measure
        assert total in page.inner_text("#status")
    page.select_option("#measure", "device")
    assert page.locator("#flame-graph .box.device").count() > 10


def test_the_table_tells_how_much_the_devices_were_used(opened: Open, text: str) -> None:
    page = opened(text)
    headings = page.locator("#paths th").all_inner_texts()
    column = next(at for at, one in enumerate(headings) if one.startswith("device use"))
    page.locator("#paths th button").nth(column).click()  # those that used a device most come first
    most = page.locator(f"#paths tbody tr:first-child > :nth-child({column + 1})").inner_text()
    assert re.fullmatch(r"\d+(\.\d)? %", most) and float(most[:-2]) > 0


def test_search_marks_boxes_and_filters_the_tables(opened: Open, text: str) -> None:
    page = opened(text)
    press(page, "/")
    page.keyboard.type("solve")
    assert " call paths match" in page.inner_text("#status")
    rows = page.locator("#paths tbody tr").all_inner_texts()
    assert rows
    assert all("solve" in row for row in rows)
    assert page.locator("#flame-graph .box.hit").count() > 0
    press(page, "Enter")
    assert "hit" in focused(page, "class")
    page.click("#spans-twin summary")
    assert "solve" in page.inner_text("#spans-table tbody tr")


def test_the_address_keeps_what_is_shown(opened: Open, text: str) -> None:
    page = opened(text)
    page.select_option("#measure", "transfer")
    page.fill("#search", "load")
    page.click("#flame-graph .box >> nth=2")
    page.click("#time-in")
    shown = page.inner_text("#time-range")
    again = opened(text, "#" + page.url.split("#")[1])
    assert again.input_value("#measure") == "transfer"
    assert again.input_value("#search") == "load"
    assert again.inner_text("#time-range") == shown
    page.go_back()
    assert page.inner_text("#time-range") != shown
    broken = opened(text, "#width=nonsense&path=-7&from=x&to=%00&theme=none")
    assert broken.input_value("#measure") == "total"


def test_tables_are_sorted_by_their_headings(opened: Open, text: str) -> None:
    page = opened(text)
    for table in ("paths", "lanes", "placed"):
        heading = page.locator(f"#{table} thead th").nth(0)
        heading.locator("button").click()
        assert heading.get_attribute("aria-sort") == "ascending"
        names = page.locator(f"#{table} tbody th").all_inner_texts()
        assert names == sorted(names, key=lambda name: (name.lower(), name)) or table == "paths"
        heading.locator("button").click()
        assert heading.get_attribute("aria-sort") == "descending"
        assert page.locator(f"#{table} [aria-sort]").count() == 1
    first = page.inner_text("#paths tbody tr")
    page.click("#paths-pager button >> nth=1")
    assert page.inner_text("#paths tbody tr") != first
    assert page.inner_text("#paths-pager span").startswith("Rows 26 to 50 of ")


def test_the_timeline_zooms_and_its_table_follows(opened: Open, text: str) -> None:
    page = opened(text)
    page.click("#spans-twin summary")
    page.wait_for_selector("#spans-table tbody tr >> nth=0")
    assert page.inner_text("#spans-pager span").endswith("of 6,201")
    enter(page, "time-graph")
    press(page, "ArrowDown")
    assert focused(page).startswith("step ")
    press(page, "Enter")
    assert not page.inner_text("#spans-pager span").endswith("of 6,201")
    shown = page.inner_text("#time-range")
    press(page, "Shift+ArrowRight")
    assert page.inner_text("#time-range") != shown
    press(page, "0")
    assert page.inner_text("#time-range").startswith("0 ns to 1.2")
    box = page.locator("#time-graph").bounding_box()
    page.mouse.move(box["x"] + 300, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + 600, box["y"] + 5, steps=4)
    page.mouse.up()
    assert page.inner_text("#time-range").startswith("30")


def test_readings_have_a_summary_and_a_table(opened: Open, text: str) -> None:
    page = opened(text)
    told = page.get_attribute("#charts svg >> nth=0", "aria-label")
    assert told.startswith("cuda:0: memory. From ")
    assert "critical for" in told
    page.click("#charts summary >> nth=0")
    page.wait_for_selector("#charts table >> nth=0 >> tbody tr >> nth=24")
    assert page.locator("#charts table >> nth=0").locator("tbody tr").count() == 25
    assert page.locator("#charts table >> nth=0").locator("th").last.inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_on_every_pattern(opened: Open, text: str, scheme: str) -> None:
    page = opened(text)
    page.emulate_media(color_scheme=scheme)
    names = ("host", "wait", "transfer", "overhead", "device", "bad", "faint", "panel", "ground")
    found = page.evaluate(
        """names => {
          const probe = document.body.appendChild(document.createElement('i'));
          const colour = name => {
            probe.style.color = `var(--${name})`;
            return getComputedStyle(probe).color.match(/[0-9.]+/g).map(Number);
          };
          const two = names.flatMap(name => [name, name + '2']).filter(name =>
            getComputedStyle(document.documentElement).getPropertyValue('--' + name));
          return [colour('text'), colour('quiet'), two.map(name => [name, colour(name)])];
        }""",
        names,
    )
    text_colour, quiet, grounds = found
    assert len(grounds) >= 14
    for name, ground in grounds:
        assert contrast(text_colour, ground) >= 4.5, name
    for name, ground in grounds[-2:]:
        assert contrast(quiet, ground) >= 4.5, name


def contrast(one: list[float], other: list[float]) -> float:
    """Return the contrast of two colours as the guidelines (WCAG 2) define it."""

    def luminance(colour: list[float]) -> float:
        parts = [value / 255 for value in colour[:3]]
        red, green, blue = (
            p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_dark_and_light_follow_the_system_or_the_button(opened: Open, text: str) -> None:
    page = opened(text)
    ground = "getComputedStyle(document.body).backgroundColor"
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(ground)
    page.emulate_media(color_scheme="light")
    assert page.evaluate(ground) == "rgb(255, 255, 255)" != dark
    page.click("#theme")
    assert page.inner_text("#theme") == "Theme: light"
    page.click("#theme")
    assert page.evaluate(ground) == dark
    assert "theme=dark" in page.url
    page.emulate_media(reduced_motion="reduce")
    assert (
        page.evaluate("getComputedStyle(document.querySelector('button')).transitionDuration")
        == "0s"
    )


def test_it_can_be_printed(opened: Open, text: str) -> None:
    page = opened(text, "#theme=dark")
    assert page.pdf(format="A4").startswith(b"%PDF-")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.is_visible("nav")
    assert not page.is_visible("#measure")
    assert page.is_visible("#flame-graph .box >> nth=0")


def test_without_scripts_the_tables_are_there(chromium: Any, tmp_path: Path, text: str) -> None:
    path = tmp_path / "page.html"
    path.write_text(text, encoding="utf-8")
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())
    assert page.is_visible("noscript p")
    assert page.is_visible("#lead")
    assert page.locator("#paths tbody tr").count() == 25
    assert not page.is_visible("#flame-graph")
    assert not page.is_visible("#theme")
    context.close()


def test_a_browser_that_cannot_decompress_is_told(opened: Open, text: str) -> None:
    page = opened(text, before="delete window.DecompressionStream")
    assert "this browser cannot decompress" in page.inner_text("#failure")
    assert page.locator("#paths tbody tr").count() == 25
    assert not page.is_visible("#flame-graph")


@pytest.mark.parametrize(("wide", "scheme"), [(1280, "light"), (390, "dark")])
def test_axe_finds_no_violation(opened: Open, axe: str, text: str, wide: int, scheme: str) -> None:
    for content in (text, render_difference(realistic(5), realistic(5, seed=2))):
        page = opened(content, viewport={"width": wide, "height": 844}, color_scheme=scheme)
        page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        page.evaluate(axe)
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        assert len(found["passes"]) > 20
        told = [(each["id"], each["nodes"][0]["html"][:200]) for each in found["violations"]]
        assert told == []
        across = page.evaluate("document.documentElement.scrollWidth")
        assert across <= wide, "the page itself must not scroll sideways"


def test_hostile_names_are_text(opened: Open) -> None:
    page = opened(html.render(hostile(HOSTILE)))
    assert page.evaluate("typeof hit") == "undefined"
    assert page.evaluate("document.images.length") == 0
    assert page.evaluate("document.scripts.length") == 2
    assert "</script><script>hit = 1</script>" in page.inner_text("#paths")
    enter(page, "flame-graph")
    press(page, "ArrowDown", "ArrowRight", "Enter")
    page.click("#spans-twin summary")
    page.wait_for_selector("#spans-table tbody tr >> nth=10")
    assert page.locator("#spans-table tbody tr").count() > 10


def test_clocks_are_shown_in_gigahertz(opened: Open) -> None:
    making = Making(2_000_000, peaks={"torch": {"to device": {"per_second": 2e9, "source": "m"}}},
                    unknown={"host: temperature": "no <zone>"})  # fmt: skip
    clock = Series("clock", "hertz", "host", array("q", [0, 10]), array("d", [3e9, 3e9]))
    making.profile.series.append(clock)
    page = opened(html.render(making.profile))
    told = page.get_attribute("#charts svg", "aria-label")
    assert told == "host: clock. 3 GHz throughout."
    assert page.locator("#charts svg text").all_text_contents()[:3] == ["0 GHz", "2 GHz", "4 GHz"]
    known = page.inner_text("#header dl")
    assert "torch to device: 2 GB/s" in known and "host: temperature: no <zone>" in known


def test_odd_profiles_open_and_answer(opened: Open) -> None:
    one = Making()
    one.span("", 0, 0)
    readings = Making()
    for value in (-3e36, 0.0, 5e-324):
        readings.profile.series.append(Series("memory", "bytes", "gpu"))
        readings.profile.series[-1].times_ns.append(0)
        readings.profile.series[-1].values.append(value)
    for profile in (Profile(), one.profile, readings.profile):
        page = opened(html.render(profile))
        for measure in ("bytes", "device", "total"):
            page.select_option("#measure", measure)
        for button in page.locator(".tools button:visible").all():
            button.click()
        assert "Nothing of" in page.inner_text("#flame-graph")


def test_the_difference_is_told_by_sign_and_number(opened: Open) -> None:
    page = opened(render_difference(realistic(10), realistic(20)))
    labels = page.locator("#flame-graph .box").evaluate_all("all => all.map(one => one.ariaLabel)")
    assert labels[0].startswith("▲ +")
    page.select_option("#side", "base")
    assert page.locator("#flame-graph .box").count() > 3
    assert page.locator("#timeline").is_hidden()
    assert "in the base" in page.inner_text("#lead")


def test_a_hundred_thousand_spans_open_and_answer(opened: Open) -> None:
    page = opened(html.render(realistic(940)))
    assert 0 < page.locator("#time-graph .box").count() <= 3000
    shown = page.inner_text("#time-range")
    page.click("#time-in")
    assert page.inner_text("#time-range") != shown
    assert page.locator("#time-graph .box").count() <= 3000
