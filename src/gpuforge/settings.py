"""The settings in force: one frozen value, with the origin of each setting.

Precedence: flag, then environment (``GPUFORGE_<NAME>``), then project file, then user file, then
default. A project file comes from a repository that may not be trusted: it cannot set anything that
concerns folders, indexes, installs or secrets, and a broken one is ignored with a note. The user's
own file and the environment are trusted; an invalid value there is an error. A user's file that
cannot be read is ignored like a project's, except by commands that install packages or change that
file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from gpuforge.dataclass import dataclass, field
from gpuforge.errors import InvalidSettings, UnknownName, nearest
from gpuforge.facts import Absent, Failed
from gpuforge.folders import expanded, user_folder
from gpuforge.probe import LiveProbe, Probe
from gpuforge.units import parse_bytes, parse_seconds

PREFIX = "GPUFORGE_"
PROJECT_FILE = "gpuforge.toml"
# A project file is not trusted: a larger one is not read.
PROJECT_LIMIT_BYTES = 64 * 1024
PROBLEM_LIMIT = 20
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")

Parser = Callable[[Any], Any]


def shown(value: Any) -> str:
    """Return `value` as short text for a message; never fails, whatever a file held."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        text = f"a value of type {type(value).__name__}, too large to show"
    return text if len(text) <= 80 else f"{text[:77]}..."


def parse_flag(value: Any) -> bool:
    """Return `value` as a boolean: true/false, yes/no, on/off, 1/0."""
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word not in _TRUE + _FALSE:
        raise InvalidSettings(f"{shown(value)} is neither true nor false", hint="use true or false")
    return word in _TRUE


def parse_names(value: Any) -> tuple[str, ...]:
    """Return names from a list or from text separated by commas."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise InvalidSettings(
            f"{shown(value)} is not a list of names", hint='use for example ["numpy", "torch"]'
        )
    return tuple(part.strip() for part in parts if part.strip())


def parse_text(value: Any) -> str:
    """Return `value` if it is text."""
    if not isinstance(value, str):
        raise InvalidSettings(f"{shown(value)} is not text", hint="put it in quotes")
    return value


def one_of(*choices: str) -> Parser:
    """Return a parser that accepts just `choices`."""

    def parse(value: Any) -> str:
        word = str(value).strip().lower()
        if word not in choices:
            near = nearest(word, choices)
            raise InvalidSettings(
                f"{shown(value)} is not one of {', '.join(map(repr, choices))}",
                hint=f"did you mean {near!r}?" if near else f"use {choices[0]!r}",
            )
        return word

    return parse


def number(low: float, high: float, kind: type[int] | type[float] = float) -> Parser:
    """Return a parser of numbers from `low` to `high`, both included."""

    def parse(value: Any) -> float:
        try:
            found = kind(str(value)) if not isinstance(value, bool) else None
        except ValueError:
            found = None
        if found is None or not low <= found <= high:
            what = "a whole number" if kind is int else "a number"
            raise InvalidSettings(
                f"{shown(value)} is not {what} from {low:g} to {high:g}",
                hint=f"use for example {kind(low)!r}",
            )
        return found

    return parse


def setting(default: Any, parse: Parser, doc: str, *, trusted_only: bool = False) -> Any:
    """Declare one setting: its default, its parser, its meaning and who may set it."""
    _DECLARED.append({"parse": parse, "doc": doc, "trusted": trusted_only})
    return field(default=default)


_DECLARED: list[dict[str, Any]] = []
"""The declaration of each setting, in order."""


@dataclass(frozen=True)
class Settings:
    """Every setting of gpuforge, parsed and checked. The meaning of each is in its metadata."""

    enabled: bool = setting(
        True, parse_flag, "choose where offloaded functions run; if false, they are called directly"
    )
    cpu_only: bool = setting(False, parse_flag, "use only backends that run on the CPU")
    backend: str = setting(
        "", parse_text, "run offloaded functions on this backend, unless results would differ"
    )
    backends: tuple[str, ...] = setting(
        (), parse_names, "backends that may be used; empty: all installed ones"
    )
    forbid: tuple[str, ...] = setting((), parse_names, "backends that are never used")
    device: str = setting(
        "", parse_text, "use backends on this device only: 'cpu', 'cuda', 'mps', ..."
    )
    fallback: bool = setting(False, parse_flag, "use NumPy when a requested backend is missing")
    numerics: str = setting(
        "strict",
        one_of("strict", "exact", "relaxed"),
        "strict: NumPy's results within rounding; exact: only what never differs from NumPy;"
        " relaxed: warnings may be missing, and precision may depend on the backend",
    )
    deterministic: bool = setting(
        False,
        parse_flag,
        "take placements from a recorded plan, so that each run gives the same bits",
    )
    plan: str = setting(
        "",
        parse_text,
        "file of the recorded plan that deterministic mode reads and writes",
        trusted_only=True,
    )
    learn: bool = setting(
        True,
        parse_flag,
        "learn timings and try other backends; if false, known timings are used as they are",
    )
    explore_share: float = setting(
        0.03,
        number(0, 1),
        "largest share of the calls' time that trying other backends may cost, minus what it gains",
    )
    min_elements: int = setting(
        0, number(0, 2**62, int), "calls with fewer array elements than this stay on NumPy"
    )
    compiler_process: bool = setting(
        True,
        parse_flag,
        "try libraries and compile graphs in a separate process, given a second core and no GPU",
    )
    warmup: bool = setting(
        False,
        parse_flag,
        "after the first call, open the libraries that the last run of the program used",
    )
    lazy_imports: bool = setting(
        False, parse_flag, "defer imports of large libraries until they are used"
    )
    kernel_caches: bool = setting(
        True, parse_flag, "set cache folders for compiled kernels where libraries have none"
    )
    plugins: bool = setting(
        False,
        parse_flag,
        "use backends that other packages provide; looking for them takes about 30 ms",
        trusted_only=True,
    )
    tame_threads: bool = setting(
        True,
        parse_flag,
        "let idle threads of NumPy's BLAS sleep instead of spin while other libraries compute",
    )
    kept_memory: int = setting(
        256 * 2**20,
        parse_bytes,
        "memory of freed arrays that the process keeps for reuse, in bytes; never more"
        " than 1/32 of main memory; 0: the C library's default (only with glibc)",
    )
    history: bool = setting(
        True, parse_flag, "keep learned timings on disk, shared between processes"
    )
    cache_folder: str = setting(
        "",
        parse_text,
        "folder for everything gpuforge stores; empty: your cache folder",
        trusted_only=True,
    )
    package_index: str = setting(
        "",
        parse_text,
        "package index for environments; empty: the installer's own setting",
        trusted_only=True,
    )
    framework_index: str = setting(
        "",
        parse_text,
        "index for the framework: 'default' or an address; empty: the framework's own",
        trusted_only=True,
    )
    find_links: tuple[str, ...] = setting(
        (), parse_names, "folders with wheels to use for environments", trusted_only=True
    )
    framework: str = setting(
        "",
        one_of("", "pytorch", "tensorflow", "jax"),
        "framework for environments when --framework is not given; empty: the best fit",
    )
    profile: str = setting(
        "",
        parse_text,
        "profile when --profile is not given; empty: the recommended one",
        trusted_only=True,
    )
    auto_install: bool = setting(
        False,
        parse_flag,
        "create environments and apply repairs without asking, as with --yes",
        trusted_only=True,
    )
    memory_limit: int = setting(
        0, parse_bytes, "largest amount of each GPU's memory to use, in bytes; 0: all of it"
    )
    memory_strategy: str = setting(
        "pooled",
        one_of("pooled", "lazy", "eager"),
        "when cached memory of a library is released: pooled, after an allocation"
        " failed; lazy, also after calls under pressure (pressure_warning); eager, after each call",
    )
    worker_memory: int = setting(
        0,
        parse_bytes,
        "largest memory of a worker process on the CPU, in bytes; 0: the memory that is free"
        " when it starts",
    )
    pressure_warning: float = setting(
        0.95, number(0, 1), "share of memory in use: doctor warns, 'lazy' releases memory"
    )
    pressure_critical: float = setting(
        0.99, number(0, 1), "share of memory in use: doctor reports an error"
    )
    profiler: bool = setting(True, parse_flag, "print a summary at the end of 'gpuforge run'")
    monitor_interval: float = setting(
        2.0,
        number(0.05, 86400),
        "seconds between two readings of 'gpuforge top' and 'gpuforge detect --watch'",
    )
    cache_seconds: float = setting(
        3600.0, parse_seconds, "how long a detected machine is cached, in seconds"
    )
    detect_cache: bool = setting(True, parse_flag, "cache the detected machine")
    detect_parallel: bool = setting(True, parse_flag, "detect the GPUs of all vendors in parallel")
    detect_plugins: bool = setting(
        False, parse_flag, "also use detectors that other packages provide", trusted_only=True
    )
    vendor_seconds: float = setting(
        2.0, number(0.01, 600), "time limit for detecting the GPUs of one vendor, in seconds"
    )
    verbose: bool = setting(
        False, parse_flag, "print the time of each phase, and what was skipped, to stderr"
    )
    log: str = setting(
        "",
        one_of("", "debug", "info", "warning", "error"),
        "level of the 'gpuforge' logger on stderr; empty: silent",
    )


class UnreadableFile(InvalidSettings):
    """A settings file that cannot be read, or is not TOML."""


class Loaded(NamedTuple):
    """The settings in force.

    Attributes
    ----------
    settings : the values
    origins : setting name to where its value came from
    problems : what was left out, and why, one sentence each
    """

    settings: Settings
    origins: dict[str, str]
    problems: tuple[str, ...] = ()


def names() -> tuple[str, ...]:
    """Return the names of all settings."""
    return tuple(_fields())


def describe(name: str) -> str:
    """Return the meaning of a setting in one sentence."""
    return str(_field(name)["doc"])


def parse(name: str, value: Any, *, where: str = "") -> Any:
    """Return the checked value of one setting.

    Raises
    ------
    UnknownName
        If no setting has that name.
    InvalidSettings
        If `value` is invalid for it; the message names `where` it was found.
    """
    declared = _field(name)
    try:
        return declared["parse"](value)
    except (ValueError, OverflowError, RecursionError) as error:
        place = f"{where}: " if where else ""
        known = isinstance(error, InvalidSettings)
        what = error if known else f"{shown(value)} is out of range"
        hint = error.hint if isinstance(error, InvalidSettings) else "write a smaller value"
        raise InvalidSettings(f"{place}{name}: {what}", hint=hint) from None


def to_text(value: Any) -> str:
    """Return a parsed value as text that `parse` reads back, for a variable or a shell."""
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def user_file() -> Path:
    """Return the path of the user's settings file, which need not exist."""
    return user_folder("config") / "config.toml"


def cache_folder(settings: Settings) -> Path:
    """Return the folder that gpuforge keeps its files in, which need not exist."""
    return expanded(settings.cache_folder) if settings.cache_folder else user_folder("cache")


def load(
    probe: Probe | None = None, flags: Mapping[str, Any] | None = None, *, strict: bool = False
) -> Loaded:
    """Return the settings in force, each with its origin.

    Parameters
    ----------
    probe
        Where files and variables are read; the live machine by default.
    flags
        Settings given on the command line or in code, by name.
    strict
        Raise if the user's file cannot be read, instead of leaving it out.

    Raises
    ------
    InvalidSettings
        If the user's file, a variable or a flag has an invalid value.
    """
    probe = probe or LiveProbe()
    values: dict[str, Any] = {}
    origins = dict.fromkeys(names(), "default")
    problems: list[str] = []
    path = str(user_file())
    try:
        _apply(_parse_toml(probe, path), path, values, origins)
    except UnreadableFile as error:
        if strict:
            raise
        problems.append(f"{error}; the file is ignored")
    _apply_project(probe, values, origins, problems)
    _apply_environment(probe, values, origins)
    _apply(dict(flags or {}), "argument", values, origins)
    return Loaded(Settings(**values), origins, tuple(problems))


def _field(name: str) -> dict[str, Any]:
    declared = _fields().get(name)
    if declared is None and len(name) > 80:
        raise UnknownName(f"unknown setting {shown(name)}")
    if declared is None:
        raise UnknownName.among("setting", name, _fields(), listing="gpuforge config show")
    return declared


@cache
def _fields() -> dict[str, dict[str, Any]]:
    return dict(zip(Settings.__annotations__, _DECLARED, strict=True))


def _apply(
    found: Mapping[str, Any], where: str, values: dict[str, Any], origins: dict[str, str]
) -> None:
    for name, value in found.items():
        try:
            values[name] = parse(name, value, where=where)
        except UnknownName as error:
            raise InvalidSettings(f"{where}: {error}", hint=error.hint) from None
        origins[name] = where


def _parse_toml(probe: Probe, path: str) -> dict[str, Any]:
    text = probe.read_text(path)
    if isinstance(text, Absent):
        return {}
    if isinstance(text, Failed):
        raise UnreadableFile(
            f"the settings file cannot be read: {text.reason}",
            hint="correct its permissions, or remove it",
        )
    try:
        import tomllib  # takes 5 ms, and most folders have no settings file

        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableFile(
            f"{path} is not valid TOML: {error}", hint="correct that line, or remove the file"
        ) from None


def _apply_environment(probe: Probe, values: dict[str, Any], origins: dict[str, str]) -> None:
    for name in names():
        variable = PREFIX + name.upper()
        text = probe.environ.get(variable)
        if text is not None and text != "":
            _apply({name: text}, variable, values, origins)


def _apply_project(
    probe: Probe, values: dict[str, Any], origins: dict[str, str], problems: list[str]
) -> None:
    """Apply the nearest project file; what it may not or cannot set is ignored with a reason."""
    found = project_file(probe)
    if found is None:
        return
    path, table = found
    if isinstance(table, str):
        problems.append(f"{path} is ignored: {table}")
        return
    for name, value in table.items():
        if len(problems) == PROBLEM_LIMIT:
            problems.append(f"{path}: the rest is ignored: it contains too many errors")
            return
        try:
            if _field(name)["trusted"]:
                problems.append(f"{path}: {name} is ignored: a project file may not set it")
                continue
            _apply({name: value}, path, values, origins)
        except (UnknownName, InvalidSettings) as error:
            hint = f" ({error.hint})" if error.hint else ""
            problems.append(f"{path}: {shown(name)} is ignored: {error}{hint}")


def project_file(probe: Probe) -> tuple[str, dict[str, Any] | str] | None:
    """Return the nearest project file and its table, or the reason why it is ignored."""
    try:
        start = Path.cwd()
    except OSError:  # the current folder was removed, or is not accessible
        return None
    for parent in (start, *start.parents):
        for file, keys in ((PROJECT_FILE, ()), ("pyproject.toml", ("tool", "gpuforge"))):
            table = _project_table(probe.read_text(str(parent / file)), keys)
            if table is not None:
                return str(parent / file), table
    return None


def _project_table(
    text: str | Absent | Failed, keys: tuple[str, ...]
) -> dict[str, Any] | str | None:
    """Return what a project file sets, the reason why it is ignored, or None if it is not one."""
    if not isinstance(text, str):
        return text.reason if isinstance(text, Failed) and not keys else None
    if keys and "gpuforge" not in text:
        return None
    if not keys and len(text) > PROJECT_LIMIT_BYTES:
        return f"larger than {PROJECT_LIMIT_BYTES // 1024} KiB"
    try:
        table: Any = _parsed(text)
    except (ValueError, RecursionError) as error:
        return f"not valid TOML: {str(error)[:200]}"
    for key in keys:
        table = table.get(key) if isinstance(table, dict) else None
    return table if isinstance(table, dict | None) else f"{'.'.join(keys)} is not a table"


@lru_cache(maxsize=4)
def _parsed(text: str) -> dict[str, Any]:
    """Return the tables of a project file (cached: parsing takes 1 ms, at each call)."""
    import tomllib

    return tomllib.loads(text)
