"""``conda install`` as gpuforge calls it, solved and linked by py-rattler.

A stand-in for a program that no package index holds: the solving, the virtual packages of this
machine, the linking and the writing of the prefix are real.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

from rattler import Channel, Gateway, MatchSpec, Platform, VirtualPackage, install, solve


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["install"])
    for flag in ("--yes", "--quiet", "--override-channels", "--offline"):
        parser.add_argument(flag, action="store_true", required=flag not in ("--offline",))
    parser.add_argument("--prefix", type=Path, required=True)
    parser.add_argument("--channel", action="append", required=True)
    parser.add_argument("specs", nargs="+")
    return parser.parse_args()


async def main() -> None:
    found = arguments()
    if not (found.prefix / "conda-meta" / "history").is_file():
        raise SystemExit(f"EnvironmentLocationNotFound: {found.prefix}")
    records = await solve(
        [Channel(channel) for channel in found.channel],
        [MatchSpec(spec, strict=True) for spec in found.specs],
        gateway=Gateway(cache_dir=os.environ["RATTLER_CACHE"]),
        platforms=[Platform.current(), Platform("noarch")],
        virtual_packages=[p.into_generic() for p in VirtualPackage.detect()],
    )
    await install(
        records,
        str(found.prefix),
        cache_dir=os.environ["RATTLER_CACHE"],
        show_progress=False,
    )


if __name__ == "__main__":
    status = 0
    try:
        asyncio.run(main())
    except Exception as error:
        status = 1
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    # Its threads may still run, and end an interpreter that is being taken down with an abort.
    os._exit(status)
