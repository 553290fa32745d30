"""The dashboard's server: who may see it, one sampling for all viewers, health, its command."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import signal
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable
from itertools import product
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from gpuforge.cli.commands import serve as serve_command
from tests.monitor.conftest import TOKEN, Dashboard, eventually
from tests.monitor.made_sample import FACTS, Producer

PAGE = Path(__file__).parents[2] / "src/gpuforge/monitor/web/page"
PATHS = ["/", "/events", "/api/now", "/metrics", "/page/page.js", "/api/sessions", "/sessions/0"]


def test_a_wrong_token_is_refused(dashboard: Dashboard) -> None:
    wrong = ["", "Bearer", "Bearer wrong", "Basic dTpw", f"Bearer {TOKEN}x", "Bearer \xff"]
    for path, given in product(PATHS, wrong):
        status, headers, body = dashboard.get(path, Authorization=given)
        assert (status, headers["WWW-Authenticate"]) == (401, "Bearer"), (path, given)
        assert b"gpuforge serve" in body


def test_another_name_is_refused(dashboard: Dashboard) -> None:
    others = ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "192.0.2.7"]
    for path, host in product([*PATHS, "/health"], others):
        status, _, body = dashboard.get(path, Host=host)
        assert status == 403, (path, host)
        assert host.encode() in body


def test_its_own_names_are_answered(dashboard: Dashboard) -> None:
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:80", "127.0.0.9"):
        assert dashboard.get("/api/now", Host=host)[0] == 200


def test_the_token_becomes_a_cookie_and_leaves_the_address(dashboard: Dashboard) -> None:
    status, headers, _ = dashboard.get(f"/?token={TOKEN}", Authorization="")
    assert (status, headers["Location"]) == (303, "/")
    cookie = headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    pair = cookie.partition(";")[0]
    assert dashboard.get("/", Authorization="", Cookie=pair)[0] == 200
    foreign = 'prefs={"a": 1}; tabs[0]=1; ' + pair  # of a server on another port
    assert dashboard.get("/", Authorization="", Cookie=foreign)[0] == 200
    assert dashboard.get("/", Authorization="", Cookie=pair + "x")[0] == 401
    assert dashboard.get("/?token=wrong", Authorization="")[0] == 401
    assert dashboard.get(f"/api/now?token={TOKEN}", Authorization="")[0] == 401


def test_every_answer_forbids_what_it_does_not_need(dashboard: Dashboard) -> None:
    for path in (*PATHS[2:], "/health", "/none"):
        headers = dashboard.get(path)[1]
        assert "default-src 'none'" in headers["Content-Security-Policy"], path
        assert headers["X-Content-Type-Options"] == "nosniff", path
        assert headers["Referrer-Policy"] == "no-referrer", path
        assert headers["Server"] is None


def test_files_beside_the_page_are_not_served(dashboard: Dashboard) -> None:
    for path in ("/page/../app.py", "/page/%2e%2e/app.py", "/page/..%2fapp.py", "/app.py"):
        assert dashboard.get(path)[0] == 404


def test_health_needs_no_token_and_fails_when_readings_stop(dashboard: Dashboard) -> None:
    status, _, body = dashboard.get("/health", Authorization="")
    assert status == 200
    assert json.loads(body)["status"] == "ok"
    dashboard.producer.fails = True
    eventually(lambda: dashboard.get("/health", Authorization="")[0] == 503, "health fails")
    told = json.loads(dashboard.get("/api/now")[2])
    assert told["problem"] == "no reading could be taken: OSError: the driver does not answer"
    dashboard.producer.fails = False
    eventually(lambda: dashboard.get("/health", Authorization="")[0] == 200, "health is back")


def test_readings_as_json(dashboard: Dashboard) -> None:
    told = json.loads(dashboard.get("/api/now")[2])
    assert told["schema_version"] == 1
    assert told["devices"][1]["link_width"] == 4
    assert told["host"]["cpu_pressure_ratio"] is None
    assert told["host"]["unknown"]["cpu_pressure_ratio"] == "no PSI in this kernel"
    assert {p["published"]["pid"] for p in told["processes"]} == {4711, 4712}


def test_fifty_viewers_share_one_sampling(dashboard: Dashboard) -> None:
    async def view() -> list[bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", dashboard.port)
        writer.write(
            b"GET /events HTTP/1.1\r\nHost: localhost\r\n"
            b"Authorization: Bearer " + TOKEN.encode() + b"\r\n\r\n"
        )
        seen: list[bytes] = []
        while len(seen) < 3:
            line = await reader.readline()
            assert line, "the feed ended"
            if line.startswith(b'data: {"schema_version"'):
                seen.append(line)
        writer.close()
        return seen

    async def all_of_them() -> list[list[bytes]]:
        return await asyncio.gather(*(view() for _ in range(50)))

    before = dashboard.taken()
    viewers = asyncio.run(all_of_them())
    taken = dashboard.taken() - before
    assert all(len(seen) == 3 for seen in viewers)
    states = {state for seen in viewers for state in seen}
    assert len(states) <= taken + 1, "a state was written for one viewer alone"
    assert dashboard.producer.taken == dashboard.taken()
    assert max(json.loads(state[6:])["viewers"] for state in states) > 25
    eventually(lambda: json.loads(dashboard.get("/api/now")[2])["viewers"] == 0, "all have gone")


def test_a_slow_viewer_gets_the_newest_and_holds_nothing_up() -> None:
    for library in ("starlette", "uvicorn", "prometheus_client"):
        pytest.importorskip(library)
    from gpuforge.monitor.web.feed import Feed

    async def look() -> tuple[list[bytes], int]:
        feed = Feed(Producer(past=300).take, lambda: FACTS, interval_seconds=0.01)
        await feed.open()
        events = feed.events()
        seen = [await anext(events)]
        while feed.taken < 40:  # nobody reads meanwhile
            await asyncio.sleep(0.01)
        while not seen[-1].startswith(b"event: state"):
            seen.append(await anext(events))
        taken = feed.taken
        feed.close()
        await asyncio.to_thread(feed.join, 10)
        await events.aclose()  # type: ignore[attr-defined]
        return seen, taken

    seen, taken = asyncio.run(look())
    assert seen[0].startswith(b"event: history")
    (state,) = [event for event in seen if event.startswith(b"event: state")]
    done = json.loads(state.partition(b"data: ")[2])["processes"][0]["published"]["done"]
    assert 7 * 39 <= done <= 7 * taken


def test_readings_that_hang_are_no_health(dashboard: Dashboard) -> None:
    dashboard.producer.goes_on.clear()
    try:
        eventually(lambda: dashboard.get("/health")[0] == 503, "health fails")
        assert json.loads(dashboard.get("/health")[2])["last_sample_age_seconds"] > 1
    finally:
        dashboard.producer.goes_on.set()
    eventually(lambda: dashboard.get("/health")[0] == 200, "health is back")


def test_the_feed_begins_with_what_was(dashboard: Dashboard) -> None:
    async def first() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", dashboard.port)
        head = f"GET /events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        writer.write(head.encode())
        await reader.readuntil(b"event: history\n")
        line = await reader.readline()
        writer.close()
        return line

    eventually(lambda: dashboard.taken() > 5, "some samples")
    history = json.loads(asyncio.run(first())[6:])
    charts = {chart["name"]: chart for chart in history["charts"]}
    assert set(charts) == {"utilization", "memory", "temperature", "power", "clock", "queue"}
    assert [line["name"] for line in charts["memory"]["lines"]] == ["host", "GPU 0", "GPU 1"]
    assert all(
        len(line["values"]) == len(history["moments"]) > 5
        for chart in charts.values()
        for line in chart["lines"]
    )


def test_session_files_are_listed_and_shown(
    serve: Callable[..., Dashboard], tmp_path: Path
) -> None:
    import gpuforge as gf

    with gf.profile(tmp_path / "run <b>.gfp"), gf.span("a step"):
        pass
    (tmp_path / "broken.gfp").write_bytes(b"no session file")
    (tmp_path / "other.txt").write_text("other")
    (tmp_path / "gone.gfp").symlink_to(tmp_path / "nowhere")
    running = serve(sessions=tmp_path)
    listed = {one["name"]: one for one in json.loads(running.get("/api/sessions")[2])}
    assert set(listed) == {"run <b>.gfp", "broken.gfp"}
    assert set(listed["broken.gfp"]) == {"key", "name", "changed_at", "size_bytes"}
    status, headers, body = running.get(f"/sessions/{listed['run <b>.gfp']['key']}")
    assert status == 200
    assert b"a step" in body
    assert "sandbox allow-scripts;" in headers["Content-Security-Policy"]
    status, _, body = running.get(f"/sessions/{listed['broken.gfp']['key']}")
    assert status == 422
    assert b"broken.gfp" in body
    for key in ("0" * 16, "..%2fother.txt", "other.txt", str(tmp_path / "other.txt")):
        assert running.get(f"/sessions/{key}")[0] == 404


def test_a_server_ends_while_viewers_look(serve: Callable[..., Dashboard]) -> None:
    running = serve(Producer())

    async def look_until_the_end() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        head = f"GET /events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        writer.write(head.encode())
        await reader.readuntil(b"event: state\n")
        asyncio.get_running_loop().run_in_executor(None, running.stop)
        rest = await reader.read()
        writer.close()
        return rest

    assert asyncio.run(look_until_the_end()).endswith(b"0\r\n\r\n")


def test_what_is_bundled_is_what_its_note_says() -> None:
    note = tomllib.loads((PAGE / "uplot/SOURCE.toml").read_text(encoding="utf-8"))
    for name, digest in note["sha256"].items():
        assert hashlib.sha256((PAGE / "uplot" / name).read_bytes()).hexdigest() == digest
    assert f"v{note['version']})" in (PAGE / "uplot/uPlot.iife.min.js").read_text("utf-8")[:80]
    assert note["version"] in (PAGE / "index.html").read_text(encoding="utf-8")
    assert "MIT License" in (PAGE / "uplot/LICENSE").read_text(encoding="utf-8")


# --- the command --------------------------------------------------------------------------------
def started(*arguments: str) -> tuple[subprocess.Popen[str], str]:
    """Return a running ``gpuforge serve`` and the line it printed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "gpuforge", "serve", "--port", "0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, process.stdout.readline()


def test_the_command_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    for library in ("starlette", "uvicorn", "prometheus_client"):
        pytest.importorskip(library)
    file = tmp_path / "token"
    process, line = started("--token-file", str(file), "--interval", "0.2")
    try:
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/\?token=(\S{32})\n", line)
        assert found, line
        assert file.read_text(encoding="utf-8").strip() == found[2]
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        here = Dashboard(Producer(), port=int(found[1]))
        bearer = f"Bearer {found[2]}"
        eventually(lambda: here.get("/health", Authorization="")[0] == 200, "a reading")
        told = json.loads(here.get("/api/now", Authorization=bearer)[2])
        assert told["host"]["memory_total_bytes"] > 0
        assert b"gpuforge_host_memory_total_bytes" in here.get("/metrics", Authorization=bearer)[2]
        assert here.get("/api/now", Authorization="Bearer x")[0] == 401
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert errors.endswith("interrupted\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--interval", "0"], "--interval 0 is below 0.1 s"),
        (["--interval", "soon"], "--interval 'soon' is not a duration"),
        (["--host", "192.0.2.1"], "'192.0.2.1' cannot be used for listening on port 0"),
        (["--port", "70000"], "--port 70000 is not a port number"),
        (["--host", "999.1.1.1"], "'999.1.1.1' is not an address or a known name"),
        (["--sessions", "/nonexistent"], "--sessions '/nonexistent' is not a folder"),
        (["--token-file", "/nonexistent/token"], "--token-file '/nonexistent/token': No such file"),
    ],
)
def test_wrong_arguments_are_refused(arguments: list[str], said: str) -> None:
    for library in ("starlette", "uvicorn", "prometheus_client"):
        pytest.importorskip(library)
    command = [sys.executable, "-m", "gpuforge", "serve", "--port", "0", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert said in done.stderr
    assert "hint: " in done.stderr


def test_a_port_in_use_is_named_without_flags_that_were_not_given() -> None:
    for library in ("starlette", "uvicorn", "prometheus_client"):
        pytest.importorskip(library)
    from gpuforge.errors import InvalidSettings
    from gpuforge.monitor.web.server import listen

    with (
        listen("127.0.0.1", 0) as taken,
        pytest.raises(InvalidSettings, match=r"^--port .* cannot be used on 127\.0\.0\.1: "),
    ):
        listen("127.0.0.1", taken.getsockname()[1])


def test_a_token_that_is_too_short_is_refused(tmp_path: Path) -> None:
    for library in ("starlette", "uvicorn", "prometheus_client"):
        pytest.importorskip(library)
    from gpuforge.errors import InvalidSettings
    from gpuforge.monitor.web.server import read_token

    file = tmp_path / "token"
    for content in ("", "short", "ü" * 24, "a b\x00" * 8):
        file.write_text(content, encoding="utf-8")
        with pytest.raises(InvalidSettings, match="does not contain a token"):
            read_token(file)


def test_the_printed_address_carries_any_token(capsys: pytest.CaptureFixture[str]) -> None:
    token = "as+openssl/rand=makes&it#or%20so"
    serve_command._tell("127.0.0.1", 8765, token)
    address = urlsplit(capsys.readouterr().out.strip())
    assert parse_qs(address.query) == {"token": [token]} and not address.fragment


def test_without_its_packages_the_command_says_what_to_install() -> None:
    code = (
        "import sys\n"
        "sys.modules |= dict.fromkeys(['starlette', 'uvicorn', 'prometheus_client'])\n"
        "from gpuforge.cli.main import main\n"
        "sys.exit(main(['serve']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )  # fmt: skip
    assert done.returncode == 2
    assert "gpuforge serve needs packages that are not installed: " in done.stderr
    assert "hint: install them: pip install 'gpuforge[serve]'" in done.stderr
