"""``gpuforge config``: show and change settings."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

from gpuforge import settings, settings_file
from gpuforge.cli import render
from gpuforge.errors import GpuForgeError, InvalidSettings, UnknownName
from gpuforge.probe import LiveProbe

SUMMARY = "show and change settings"
STRICT_SETTINGS = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    def action(name: str, text: str) -> argparse.ArgumentParser:
        found = actions.add_parser(name, help=text, description=text)
        found.add_argument("--json", action="store_true", help="print JSON")
        found.add_argument("--verbose", action="store_true", default=argparse.SUPPRESS)
        return found

    show = action("show", "list all settings with their values and meanings")
    show.add_argument("--origin", action="store_true", help="show where each value comes from")
    action("get", "print the current value of a setting").add_argument("name", metavar="NAME")
    put = action("set", "set a value in your settings file")
    put.add_argument("name", metavar="NAME")
    put.add_argument("value", metavar="VALUE", help="lists are separated by commas")
    unset = action("unset", "remove a setting from your settings file")
    unset.add_argument("name", metavar="NAME")
    action("path", "print the path of your settings file")
    action("edit", "open your settings file in $VISUAL or $EDITOR")
    preset = action("preset", "apply the settings recommended for one kind of machine")
    preset.add_argument("name", metavar="|".join(settings_file.PRESETS))


def run(arguments: argparse.Namespace) -> int:
    """Run one action and return its exit status."""
    return int(_ACTIONS[arguments.action](arguments))


def _show(arguments: argparse.Namespace) -> int:
    loaded = settings.load(strict=True)
    if arguments.json:
        found = {
            name: {
                "value": getattr(loaded.settings, name),
                "origin": loaded.origins[name],
                "meaning": settings.describe(name),
            }
            for name in settings.names()
        }
        render.document({"settings": found, "problems": loaded.problems})
        return 0
    rows = []
    for name in settings.names():
        origin = [loaded.origins[name]] if arguments.origin else []
        value = settings.to_text(getattr(loaded.settings, name))
        rows.append([name, value or "(empty)", *origin, settings.describe(name)])
    heading = ["setting", "value", *(["from"] if arguments.origin else []), "meaning"]
    render.data(render.table(rows, heading=heading))
    return 0


def _get(arguments: argparse.Namespace) -> int:
    settings.describe(arguments.name)  # raises if the name is unknown
    loaded = settings.load(strict=True)
    value = getattr(loaded.settings, arguments.name)
    if arguments.json:
        origin = loaded.origins[arguments.name]
        render.document({"name": arguments.name, "value": value, "origin": origin})
    else:
        render.data(settings.to_text(value))
    return 0


def _set(arguments: argparse.Namespace) -> int:
    return _write(arguments, {arguments.name: arguments.value})


def _preset(arguments: argparse.Namespace) -> int:
    values = settings_file.PRESETS.get(arguments.name)
    if values is None:
        raise UnknownName.among("preset", arguments.name, settings_file.PRESETS)
    return _write(arguments, values)


def _write(arguments: argparse.Namespace, values: dict[str, Any]) -> int:
    path = settings.user_file()
    _check_backends({name: settings.parse(name, value) for name, value in values.items()})
    before = settings_file.change(path, values)
    parsed = {name: settings.parse(name, value) for name, value in values.items()}
    if arguments.json:
        render.document({"file": str(path), "set": parsed, "before": before})
    else:
        for name, value in parsed.items():
            was = f" (was {before[name]})" if name in before else ""
            render.data(f"{name} = {settings.to_text(value)}{was}")
        render.message(f"wrote {path}")
    _warn_if_overridden(path, tuple(parsed))
    return 0


def _check_backends(values: dict[str, Any]) -> None:
    """Raise if a setting names an unknown backend or device."""
    named = [*values.get("backends", ()), *values.get("forbid", ()), values.get("backend", "")]
    if not any(named) and not values.get("device"):
        return
    from gpuforge.runtime.backends import check_device, names

    known = names(plugins=True)
    for name in filter(None, named):
        if name.partition(":")[0] not in known:
            raise UnknownName.among("backend", name.partition(":")[0], known)
    if values.get("device"):
        check_device(values["device"])


def _unset(arguments: argparse.Namespace) -> int:
    path = settings.user_file()
    before = settings_file.change(path, {}, remove=(arguments.name,))
    if not before:
        settings.describe(arguments.name)  # raises if the name is unknown
    if arguments.json:
        render.document({"file": str(path), "removed": before})
    elif before:
        render.message(f"removed {arguments.name} from {path}")
    else:
        render.message(f"{arguments.name} is not set in {path}; nothing was changed")
    _warn_if_overridden(path, (arguments.name,))
    return 0


def _path(arguments: argparse.Namespace) -> int:
    path, project = settings.user_file(), settings.project_file(LiveProbe())
    if arguments.json:
        document = {"user": str(path), "exists": os.path.exists(path)}
        render.document({**document, "project": project[0] if project else None})
    else:
        render.data(str(path))
    return 0


def _edit(arguments: argparse.Namespace) -> int:
    path = settings.user_file()
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise InvalidSettings(
            "no editor is set in VISUAL or EDITOR", hint=f"set EDITOR, or open {path} yourself"
        )
    settings_file.create(path)
    try:
        status = subprocess.call([*shlex.split(editor), str(path)])
    except (OSError, ValueError) as error:
        raise InvalidSettings(
            f"the editor {editor!r} could not be started: {error}", hint="set EDITOR"
        ) from None
    if status != 0:
        render.message(f"{editor} ended with status {status}")
    settings.load(strict=True)  # report a mistake in the edited file at once
    if arguments.json:
        render.document({"file": str(path)})
    return int(status != 0)


def _warn_if_overridden(path: Path, names: tuple[str, ...]) -> None:
    """Warn about what keeps the change to the settings `names` from taking effect."""
    try:
        origins = settings.load(strict=True).origins
    except GpuForgeError as error:
        render.message(f"the settings file still has an error: {error}")
        return
    for name in names:
        origin = origins.get(name, "default")
        if origin not in (str(path), "default"):
            render.message(
                f"note: {name} is overridden by {origin}, which takes precedence over your file"
            )


_ACTIONS = {
    "show": _show, "get": _get, "set": _set, "unset": _unset, "path": _path, "edit": _edit,
    "preset": _preset,
}  # fmt: skip
