"""Are environments really created, verified and switched? Profile lightweight on the CPU.

usage: python benchmarks/environments/create.py [--installer uv pip conda] [--channel URL]
                                                [-- FLAGS OF env create ...]

For conda, a channel such as `tests/environment/channel.py` writes will do. Flags after ``--`` say
where PyTorch's CPU build comes from, such as ``--find-links DIR --framework-index default
--framework-version 2.13.0``; they are given for PyTorch alone.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results" / "create.json"


def gpuforge(*argv: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "gpuforge", "env", *argv],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def attempt(what: str, installer: str, *argv: str) -> dict[str, Any]:
    """Return what came of one command whose last step verifies an environment."""
    started = time.perf_counter()
    status, out, err = gpuforge(*argv, "--json")
    seconds = round(time.perf_counter() - started, 1)
    found = json.loads(out) if out.strip() else {}
    checks = {check["name"]: check["ok"] for check in found.get("checks", [])}
    version = next((c["detail"] for c in found.get("checks", []) if c["name"] == "import"), "")
    return {
        "what": what,
        "installer": installer,
        "verified": status == 0 and found.get("ok") is True,
        "version": version,
        "checks": checks,
        "seconds": seconds,
        "error": "" if status == 0 else err.strip()[-300:],
    }


def attempts(
    folder: Path, installer: str, channel: str, torch_flags: list[str]
) -> list[dict[str, Any]]:
    base = ["--cpu-only", "--yes", "--installer", installer, "--path", str(folder / ".venv")]
    base += ["--channel", channel] if channel else []
    found = [
        attempt(
            "create pytorch", installer, "create", "--profile", "lightweight", *base,
            "--framework", "pytorch", *torch_flags,
        )
    ]  # fmt: skip
    for framework in ("tensorflow", "pytorch", "jax", "pytorch"):
        flags = torch_flags if framework == "pytorch" else []
        found.append(
            attempt(
                f"switch to {framework}", installer, "switch", "--framework", framework,
                *base, *flags,
            )
        )  # fmt: skip
    for name in (".venv", ".venv-tensorflow", ".venv-jax"):
        path = str(folder / name)
        found.append(attempt(f"verify {name}", installer, "verify", "--path", path))
    return found


def main() -> int:
    own = sys.argv[1:]
    torch_flags = own[own.index("--") + 1 :] if "--" in own else []
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--installer", nargs="*", default=["uv"])
    parser.add_argument("--channel", default="", help="for conda, instead of conda-forge")
    found = parser.parse_args(own[: own.index("--")] if "--" in own else own)
    results = []
    for installer in found.installer:
        with tempfile.TemporaryDirectory() as folder:
            results += attempts(Path(folder), installer, found.channel, torch_flags)
    verified = sum(result["verified"] for result in results)
    document = {
        "schema_version": 1,
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "attempted": len(results),
        "verified": verified,
        "results": results,
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    for result in results:
        word = "verified" if result["verified"] else f"FAILED {result['error']}"
        print(f"{result['what']:24} {result['seconds']:7.1f} s  {word}")
    print(f"{verified} of {len(results)} verified")
    return int(verified < 0.95 * len(results))


if __name__ == "__main__":
    sys.exit(main())
