"""Does the installed pytest still know the arguments that plugins want for their hooks?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from gpuforge.diagnose.distribution import Distribution
from gpuforge.diagnose.finding import Finding
from gpuforge.diagnose.site import NOT_RECORDED, Site
from gpuforge.facts import known

SUMMARY = "plugins of pytest use hooks as this pytest has them"

PROJECT_FILES = ("conftest.py", "tests/conftest.py", "test/conftest.py")
LONG = 20_000  # bytes
_HOOK = re.compile(rb"\ndef (pytest_\w+)\(([^)]*)\)")
_NAME = re.compile(rb"(?:^|,)\s*(\w+)")
_TYPE = re.compile(rb"\[[^\]]*\]")
Hooks = dict[str, set[str]]


def check(site: Site) -> Iterator[Finding]:
    """Yield each plugin, or ``conftest.py`` here, that pytest refuses: all tests fail then."""
    one = site.distribution("pytest") if site.live else None
    if one is None:
        yield Finding("skipped", "pytest is not installed" if site.live else NOT_RECORDED.reason)
        return
    specification = _content(site, one.folder / "_pytest" / "hookspec.py")
    found = list[Finding]()
    for owner, path in _plugins(site):
        content = _content(site, path)
        hooks = _seeming_hooks(content)
        # A look at the text is fast; a syntax tree is sure.
        if hooks and _outgrown(hooks, _seeming_hooks(specification, *hooks)):
            lost = _outgrown(_hooks(content), _hooks(specification))
            found += [_finding(one, owner, path, *lost)] if lost else []
    yield from found or [Finding("ok", f"pytest {one.version} accepts its plugins")]


def _plugins(site: Site) -> Iterator[tuple[Distribution | None, Path]]:
    """Yield the modules of plugins, with their packages; those of this project have none."""
    off = site.probe.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    for one in (one for one in site.distributions if _may_have_plugin(one) and not off):
        section = one.entry_points.partition("[pytest11]")[2].partition("\n[")[0]
        named = (line.partition("=")[2].strip() for line in section.splitlines())
        modules = (name.replace(".", "/") for name in named if name and ":" not in name)
        paths = (f"{module}{end}" for module in modules for end in (".py", "/__init__.py"))
        yield from ((one, one.folder / path) for path in paths if one.entry(path))
    yield from ((None, Path(path).absolute()) for path in PROJECT_FILES)


def _may_have_plugin(one: Distribution) -> bool:
    """Return whether pytest is named among the files of a package, unless they are very many."""
    return "pytest" in one.name or (len(one.record) < LONG and b"pytest" in one.record)


def _outgrown(hooks: Hooks, known_hooks: Hooks) -> tuple[str, str] | None:
    """Return a hook and the argument that it wants in vain; None if there is none."""
    for name in hooks.keys() & known_hooks.keys():
        if lost := sorted(hooks[name] - known_hooks[name]):
            return name, lost[0]
    return None


def _finding(
    pytest: Distribution, owner: Distribution | None, path: Path, hook: str, argument: str
) -> Finding:
    if owner:
        who = f"{owner.name} {owner.version}"
        step = f"Upgrade it, or install another pytest: pip install --upgrade {owner.name}"
    else:
        who, step = str(path), f"Remove the argument {argument} from {hook}."
    message = (
        f"{who} is incompatible with pytest {pytest.version}: its hook {hook} wants the argument"
        f" {argument}, which this pytest does not have, so pytest does not start"
    )
    return Finding("error", message, "outgrown_package", (str(path),), (step,))


def _content(site: Site, path: Path) -> bytes:
    return known(site.probe.read_bytes(str(path))) or b""


def _seeming_hooks(content: bytes, *names: str) -> Hooks:
    """Return the arguments of the hooks in a module, or of those named, by a quick look."""
    starts = (content.find(f"\ndef {name}(".encode()) for name in names)
    some = (_HOOK.match(content, max(start, 0)) for start in starts)
    return {
        match[1].decode(): {name.decode() for name in _NAME.findall(_TYPE.sub(b"", match[2]))}
        for match in filter(None, some if names else _HOOK.finditer(content))
    }


def _hooks(content: bytes) -> Hooks:
    """Return the arguments of the hooks in a module; pytest ignores those with a default."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return {}
    found = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not any(map(_is_renamed, node.decorator_list)):
            given = [one.arg for one in (*node.args.posonlyargs, *node.args.args)]
            found[node.name] = set(given[: len(given) - len(node.args.defaults)])
    return found


def _is_renamed(decorator: ast.expr) -> bool:
    """Return whether a decorator makes a function something other than the hook of its name."""
    given = decorator.keywords if isinstance(decorator, ast.Call) else ()
    return any(one.arg == "specname" for one in given) or "fixture" in ast.unparse(decorator)
