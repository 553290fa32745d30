"""What a module does with another one that it imports only if it can."""

from __future__ import annotations

import ast
from collections.abc import Iterator

CAUGHT = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}
HIDES_ATTRIBUTES = {"AttributeError", "Exception", "BaseException"}
OF_EVERY_MODULE = {"__name__", "__path__", "__spec__", "__loader__", "__doc__", "__package__"}


def missing_attribute(content: bytes, module: str) -> str:
    """Return what a module takes from an optional one when it is imported; empty if nothing.

    If the other one is only a folder without ``__init__.py``, the import succeeds, and this fails.
    """
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return ""
    names = {
        alias.asname or alias.name
        for one in ast.walk(tree) if isinstance(one, ast.Try) and _caught(one) & CAUGHT
        for line in one.body if isinstance(line, ast.Import)
        for alias in line.names if alias.name == module
    }  # fmt: skip
    return next(_taken(tree, names), "") if names else ""


def _caught(one: ast.Try) -> set[str]:
    """Return the names of the exceptions that a statement catches."""
    types = [
        node for handler in one.handlers for node in ast.walk(handler.type or ast.Name("Exception"))
    ]
    return {node.id for node in types if isinstance(node, ast.Name)}


def _taken(node: ast.AST, names: set[str]) -> Iterator[str]:
    """Yield the attributes of modules that are looked up when `node` runs, functions aside."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        parts: list[ast.AST] = [*node.decorator_list, *node.args.defaults]
        parts += [one for one in node.args.kw_defaults if one]
    elif isinstance(node, ast.Lambda) or (
        isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    ):
        parts = []
    elif isinstance(node, ast.Try) and _caught(node) & HIDES_ATTRIBUTES:
        parts = [*node.orelse, *node.finalbody]
    else:
        parts = list(ast.iter_child_nodes(node))
    of = node.value if isinstance(node, ast.Attribute) else None
    if isinstance(of, ast.Name) and of.id in names and isinstance(node, ast.Attribute):
        yield from () if node.attr in OF_EVERY_MODULE else (node.attr,)
    for one in parts:
        yield from _taken(one, names)
