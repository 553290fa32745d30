"""Do the user, the home folder, the limits and the clock of this process let programs work?"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Iterator
from pathlib import Path

from gpuforge.diagnose.finding import Finding
from gpuforge.diagnose.site import NOT_RECORDED, Site
from gpuforge.units import format_bytes

SUMMARY = "limits, user and clock of this process let programs work"

# Enough for the threads and files of common libraries; PyTorch maps 10 GB and more.
LEAST_FILES, LEAST_PROCESSES, LEAST_BYTES = 256, 256, 64 * 2**30
LEAST_FILE_BYTES, LEAST_STACK_BYTES, LEAST_SECONDS = 2**30, 2**20, 900
BUILT = 1_735_689_600  # 2025-01-01: certificates that are valid now were not valid before
ASIDE = {"C", "POSIX", "C.UTF-8", "C.utf8", ""}


def check(site: Site) -> Iterator[Finding]:
    """Yield each property of this process with which common libraries fail."""
    if not site.live or os.name != "posix":
        yield Finding("skipped", NOT_RECORDED.reason if not site.live else "not read on Windows")
        return
    found = [*_limits(), *_user(site), *_locale(site), *_temporary(site)]
    if time.time() < BUILT:
        message, step = (
            "the clock is wrong: certificates are not valid yet",
            "timedatectl set-ntp true",
        )
        found.append(_warning(message, time.strftime("%Y-%m-%d"), f"Set it: {step}"))
    yield from found or [Finding("ok", "limits, user and clock let programs work")]


def _warning(message: str, evidence: str, step: str) -> Finding:
    return Finding("warning", message, "process_limited", (evidence,), (step,))


def _limits() -> Iterator[Finding]:
    """Find limits of this process (``ulimit``) that are too low."""
    import resource

    limited = (
        ("RLIMIT_NOFILE", LEAST_FILES, "open files", "n"),
        ("RLIMIT_NPROC", LEAST_PROCESSES, "processes and threads", "u"),
        ("RLIMIT_AS", LEAST_BYTES, "address space", "v"),
        ("RLIMIT_DATA", LEAST_BYTES, "data", "d"),
        ("RLIMIT_FSIZE", LEAST_FILE_BYTES, "the size of files", "f"),
        ("RLIMIT_STACK", LEAST_STACK_BYTES, "the stack", "s"),
        ("RLIMIT_CPU", LEAST_SECONDS, "processor time", "t"),
    )
    for name, least, what, letter in limited:
        number = getattr(resource, name, None)
        have = resource.getrlimit(number)[0] if number is not None else resource.RLIM_INFINITY
        unbound = name == "RLIMIT_NPROC" and os.geteuid() == 0  # it does not bind root
        if have not in (resource.RLIM_INFINITY, -1) and have < least and not unbound:
            unit = " s" if name == "RLIMIT_CPU" else ""
            shown = format_bytes(have) if least > 1000 else f"{have}{unit}"
            message = f"this process is limited to {shown} of {what}, with which programs fail"
            yield _warning(message, f"{name}={have}", f"Raise it: ulimit -{letter} unlimited")


def _user(site: Site) -> Iterator[Finding]:
    """Find a user without a name, or without a home folder to write into."""
    import pwd

    environ, number = site.probe.environ, os.getuid()
    try:
        entry: str | None = pwd.getpwuid(number).pw_dir
    except KeyError:
        entry = None
    if entry is None and not any(environ.get(n) for n in ("LOGNAME", "USER", "LNAME", "USERNAME")):
        message = f"the user {number} has no name, so getpass.getuser fails, as in PyTorch's cache"
        yield _warning(message, "no entry in /etc/passwd", "Set a name: export USER=me LOGNAME=me")
    home = Path(environ.get("HOME") or entry or "/")
    if not (home.is_dir() and os.access(home, os.W_OK)) and not environ.get("XDG_CACHE_HOME"):
        message = (
            f"the home folder {home} cannot be written: libraries keep caches and settings there"
        )
        yield _warning(message, f"HOME={home}", "Set HOME to a folder of this user's")


def _temporary(site: Site) -> Iterator[Finding]:
    """Find a folder for temporary files from which nothing can be loaded, or that is read-only."""
    folders = (site.probe.environ.get(name, "") for name in ("TMPDIR", "TEMP", "TMP"))
    folder = next((one for one in (*folders, "/tmp") if one and os.path.isdir(one)), "")
    if not folder or not os.access(folder, os.W_OK):
        message = f"there is no folder for temporary files: {folder or '/tmp'} cannot be written"
        yield _warning(message, folder, "Set TMPDIR to a folder of this user's")
    elif "TORCHINDUCTOR_CACHE_DIR" in site.probe.environ:
        return
    elif "torch" in site.packages and os.statvfs(folder).f_flag & getattr(os, "ST_NOEXEC", 0):
        message = f"{folder} is mounted noexec: torch.compile loads what it builds from there"
        yield _warning(message, folder, "Set TORCHINDUCTOR_CACHE_DIR to a folder elsewhere")


def _locale(site: Site) -> Iterator[Finding]:
    """Find a locale that this system does not have."""
    environ, folder = site.probe.environ, Path("/usr/lib/locale")
    name = next((n for n in ("LC_ALL", "LC_CTYPE") if environ.get(n)), "")
    value = environ.get(name, "")
    if not name or value in ASIDE or not folder.is_dir() or "LOCPATH" in environ:
        return
    plain, _, codec = value.partition(".")
    like = f"{plain}.{codec.replace('-', '').lower()}" if codec else plain
    if any((folder / one).is_dir() for one in (value, like)):
        return
    if not _is_archived(folder / "locale-archive", value, like):
        message = f"{name}={value} names a locale that this system does not have: setlocale fails"
        yield _warning(
            message, str(folder), f"export {name}=C.UTF-8, or generate it: locale-gen {value}"
        )


def _is_archived(path: Path, *names: str) -> bool:
    """Return whether the archive of locales, which may be large, has one of these names."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as held:
            return any(held.find(f"{name}\0".encode()) >= 0 for name in names)
    except (OSError, ValueError):
        return False
