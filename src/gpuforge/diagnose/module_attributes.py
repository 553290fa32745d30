"""The names that a module defines, from its syntax tree."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Sequence
from typing import TypeGuard

# Functions that make a module's ``__getattr__`` of the names that are written in its file.
OF_WRITTEN_NAMES = frozenset(
    {"attach", "_attach", "attach_stub", "deprecation_getattr", "_deprecation_getattr"}
)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_NAMING = (*_SCOPES, ast.MatchAs, ast.MatchStar)


def parsed(text: bytes) -> ast.Module | None:
    """Return the syntax tree of a module; None if this Python cannot parse it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the module, which is not this program's
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def defined_names(tree: ast.Module) -> frozenset[str]:
    """Return the names that a module's statements bind, also if only under a condition."""
    return frozenset(_bound(tree.body))


def may_provide(tree: ast.Module, name: str) -> bool:
    """Return whether the module's ``__getattr__`` may provide a name that it does not define."""
    for node in _outside_functions(tree.body):
        if isinstance(node, ast.FunctionDef) and node.name == "__getattr__":
            return not _only_raises(tree, node, name)
    if "__getattr__" not in defined_names(tree):
        return False
    makers = {_called(node) for node in ast.walk(tree) if _is_getattr(node)}
    written = [node for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    named = any(node.value == name for node in written)
    return not makers or not makers <= OF_WRITTEN_NAMES or (named and not _is_withdrawn(tree, name))


def _bound(statements: Sequence[ast.AST]) -> Iterator[str]:
    for node in _outside_functions(statements):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (one.asname or one.name.split(".")[0] for one in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, _NAMING):
            yield getattr(node, "name", None) or ""


def _outside_functions(statements: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Yield all nodes that do not belong to a function or class, but these themselves."""
    todo = list(statements)
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, _SCOPES):
            todo += ast.iter_child_nodes(node)


def _is_getattr(node: ast.AST) -> bool:
    """Return whether a statement assigns ``__getattr__``."""
    targets = node.targets if isinstance(node, ast.Assign) else []
    return any(
        isinstance(part, ast.Name) and part.id == "__getattr__"
        for target in targets
        for part in ast.walk(target)
    )


def _called(node: ast.AST) -> str:
    """Return the name of the function of whose call a statement assigns the result."""
    value = node.value if isinstance(node, ast.Assign) else None
    if not isinstance(value, ast.Call):
        return ""
    return getattr(value.func, "attr", getattr(value.func, "id", ""))


def _is_withdrawn(tree: ast.Module, name: str) -> bool:
    """Return whether a table of deprecated names has only a message for a name."""
    return any(
        isinstance(key, ast.Constant) and key.value == name
        and isinstance(value, ast.Tuple) and value.elts
        and isinstance(value.elts[-1], ast.Constant) and value.elts[-1].value is None
        for table in ast.walk(tree) if isinstance(table, ast.Dict)
        for key, value in zip(table.keys, table.values, strict=True)
    )  # fmt: skip


def _only_raises(tree: ast.Module, function: ast.FunctionDef, name: str) -> bool:
    """Return whether a ``__getattr__`` certainly raises for a name."""
    parameter = function.args.args[0].arg if function.args.args else ""
    return _Outcome(tree, parameter, name).of(function.body) == {"raises"}


class _Outcome:
    """Follows a ``__getattr__`` for one name through its statements.

    Attributes
    ----------
    called : whether it has called something, which may have added names to the module
    """

    def __init__(self, tree: ast.Module, parameter: str, name: str) -> None:
        self.tree, self.parameter, self.name = tree, parameter, name
        self.called = False

    def of(self, statements: Sequence[ast.stmt]) -> set[str]:
        """Return how they may end: ``raises``, ``returns`` or ``goes on``."""
        found: set[str] = set()
        for statement in statements:
            ends = self._statement(statement)
            found |= ends - {"goes on"}
            if "goes on" not in ends:
                return found
        return found | {"goes on"}

    def _statement(self, node: ast.stmt) -> set[str]:
        if isinstance(node, ast.Raise):
            return {"raises"}
        if isinstance(node, ast.Return):
            # A name that the module does not define is not among its globals.
            own = node.value and ast.unparse(node.value) == f"globals()[{self.parameter}]"
            return {"raises" if own and not self.called else "returns"}
        if isinstance(node, ast.If):
            holds = self._holds(node.test)
            ways = [self.of(node.body)] if holds is not False else []
            ways += [self.of(node.orelse)] if holds is not True else []
            return set().union(*ways)
        if isinstance(node, ast.Try):
            ends = self.of([*node.body, *node.orelse])
            return (ends - {"raises"}).union(*(self.of(one.body) for one in node.handlers))
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Expr | ast.Assign):
            inner = list(ast.walk(node))
            self.called = self.called or any(isinstance(one, ast.Call) for one in inner)
            names = {one.id for one in inner if _is_stored(one)}
            return {"goes on"} if self.parameter not in names else {"returns", "raises", "goes on"}
        return {"returns", "raises", "goes on"}

    def _holds(self, test: ast.expr) -> bool | None:
        """Return whether a condition on the name holds; None if unknown."""
        if not (isinstance(test, ast.Compare) and len(test.ops) == 1):
            return None
        if not (isinstance(test.left, ast.Name) and test.left.id == self.parameter):
            return None
        operator, right = test.ops[0], test.comparators[0]
        if isinstance(operator, ast.Eq) and isinstance(right, ast.Constant):
            return right.value == self.name
        held = _held(self.tree, right) if isinstance(operator, ast.In | ast.NotIn) else None
        return None if held is None else (self.name in held) == isinstance(operator, ast.In)


def _is_stored(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _is_changed(tree: ast.Module, name: str) -> bool:
    """Return whether a collection may be changed after it was made, or be another one."""
    stored = sum(_is_stored(node) and node.id == name for node in ast.walk(tree))
    return stored != 1 or any(
        isinstance(node, ast.Attribute | ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == name
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) or not isinstance(getattr(node, "ctx", None), ast.Load)
    )


def _held(tree: ast.Module, node: ast.expr, depth: int = 3) -> set[object] | None:
    """Return the constants in a collection that is written in the module; None if unknown."""
    if isinstance(node, ast.Name):
        if not depth or _is_changed(tree, node.id):
            return None
        values = [
            one.value
            for one in tree.body
            if isinstance(one, ast.Assign | ast.AnnAssign) and one.value
            for target in (one.targets if isinstance(one, ast.Assign) else [one.target])
            if isinstance(target, ast.Name) and target.id == node.id
        ]
        return _held(tree, values[0], depth - 1) if len(values) == 1 else None
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        made = getattr(node.func, "id", "")
        is_copy = made in ("set", "frozenset", "tuple", "list")
        return _held(tree, node.args[0], depth) if is_copy else None
    items = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", None)
    held = [one.value for one in items or () if isinstance(one, ast.Constant)]
    return None if items is None or len(held) < len(items) else set(held)
