"""How this copy of gpuforge was installed, and the command that adds something to it."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def install_command(extra: str, *packages: str) -> str:
    """Return the command that installs an extra of gpuforge into this environment.

    Parameters
    ----------
    extra
        Its name: ``jax``, ``uv``.
    packages
        The packages of the extra, named instead if gpuforge was installed neither from an index nor
        from a folder that still exists. Default: a package with the extra's name.
    """
    import shlex

    home = _folder()
    if home is not None:
        what = f"-e {shlex.quote(f'{home}[{extra}]')}"
    elif _from_index():
        what = f"'gpuforge[{extra}]'"
    else:
        what = shlex.join(packages or (extra,))
    if not is_installed("pip"):
        return f"uv pip install --python {shlex.quote(sys.executable)} {what}"
    return f"{shlex.quote(sys.executable)} -m pip install {what}"


def is_installed(module: str) -> bool:
    """Return whether a top-level module is there to import: not if a stand-in takes its place."""
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # a finder refuses it; the stand-in has no specification
        return False


def loaded(module: str) -> Any:
    """Return an imported module; None if there is none, or its execution waits for its first use.

    Loaders that defer keep their state in the module's specification until then.
    """
    found = sys.modules.get(module)
    if type(found) is ModuleType or not isinstance(found, ModuleType):
        return found
    spec = object.__getattribute__(found, "__dict__").get("__spec__")
    return found if getattr(spec, "loader_state", None) is None else None


def _direct_url() -> dict[str, object] | None:
    """Return the installer's source of gpuforge; empty for an index, None for no installer."""
    # Imported here: it takes 15 ms, and every program that places calls imports this module.
    import json
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        text = distribution("gpuforge").read_text("direct_url.json")
        found = json.loads(text) if text else {}
    except (PackageNotFoundError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _from_index() -> bool:
    return _direct_url() == {} and "site-packages" in __file__.split(os.sep)


def _folder() -> Path | None:
    """Return the folder of the clone that gpuforge runs from."""
    from pathlib import Path
    from urllib.parse import unquote, urlparse

    told = _direct_url() or {}
    address = urlparse(str(told.get("url", "")))
    named = Path(unquote(address.path)) if address.scheme == "file" else None
    for folder in (named, Path(__file__).parents[2]):
        if folder is not None and (folder / "pyproject.toml").is_file():
            return folder
    return None
