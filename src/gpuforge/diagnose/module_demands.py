"""What a module takes from others when it is imported, read from its text.

Statements are found as text first, because parsing every module would take seconds. Only what
stands at the start of a line is certainly executed; `is_certain` then asks the syntax tree.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TypeGuard

MOST_USES = 50
"""Limit for the uses of a name that are looked at: each is compared with all text before it."""
_FROM = re.compile(rb"([.\w]+)[ \t]+import[ \t]*(\([^)]*\)|[^\n\\;]*(?:\\\n[^\n\\;]*)*)")
_COMMENT = re.compile(rb"#[^\n]*")
# Words of functions that try what is there, or that are for another version.
_CAREFUL = (
    r"(?i)hasattr|getattr|version|AttributeError|ImportError|NameError|warn|PY[23]|sys\.|six\b|HAS_"
    r"|compat|deprecat|legacy|\bold|_old|obsolete|executing_eagerly|tf_?[12]|_v[12]\b"
)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def demands(text: bytes) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield the modules that the import statements at the start of lines name, as written.

    With each comes what is taken from it and the name that this is bound to; if the module itself
    is imported, what is taken is empty.
    """
    # Splitting finds these lines ten times as fast as a regular expression does.
    for rest in text.split(b"\nfrom ")[1:]:
        if found := _FROM.match(rest):
            names = _names(found[2].strip(b"() \t\n"))
            yield found[1].decode("utf-8", "replace"), [(n, b or n) for n, b in names]
    for rest in text.split(b"\nimport ")[1:]:
        for name, bound in _names(rest.partition(b"\n")[0].partition(b";")[0]):
            top = name.partition(".")[0]
            # `import a.b as a`: what `a` has is not looked up, as if it were not bound at all.
            yield name, [("", "" if bound == top != name else bound or top)]


def inner_demands(text: bytes) -> Iterator[tuple[str, list[str]]]:
    """Yield the modules that indented import statements name, as written, and what they take.

    These are in functions, or under conditions; what a `try` begins with is left out. If the module
    itself is imported, nothing is taken.
    """
    at = text.find(b" import ")
    while at >= 0:
        start = text.rfind(b"\n", 0, at) + 1
        line = text[start:at].lstrip()
        before = text[text.rfind(b"\n", 0, start - 1) + 1 : start].strip()
        if text[start : start + 1] in (b" ", b"\t") and before != b"try:":
            if line.startswith(b"from ") and (
                found := _FROM.match(line[5:] + text[at : at + 2000])
            ):
                taken = [name for name, _ in _names(found[2].strip(b"() \t\n"))]
                yield found[1].decode("utf-8", "replace"), taken
            elif not line:
                listed = text[at + 8 :].partition(b"\n")[0].partition(b";")[0]
                yield from ((name, []) for name, _ in _names(listed))
        at = text.find(b" import ", at + 8)


def _names(listed: bytes) -> Iterator[tuple[str, str]]:
    """Yield the imported names in a list, each with the name after ``as``."""
    if b"#" in listed:
        listed = _COMMENT.sub(b"", listed)
    for part in listed.decode("utf-8", "replace").replace("\\\n", " ").split(","):
        words = part.split()
        plain = words and words[0].replace(".", "_").isidentifier()
        if plain and (len(words) == 1 or (len(words) == 3 and words[1] == "as")):
            yield words[0], words[2] if words[2:] else ""


def attributes(text: bytes, bound: str) -> set[str]:
    """Return at least the names that a module's text has after ``bound.``; see `is_used`."""
    # A regular expression that begins with literal text is ten times as fast.
    found = re.findall(rb"%b\.([A-Za-z_]\w*)" % bound.encode(), text)
    return {one.decode("utf-8", "replace") for one in found}


def uses(text: bytes, bound: str, name: str) -> tuple[bool, bool]:
    """Return whether a module's text contains ``bound.name`` outside functions, and in one.

    What stands in comments and texts does not count.
    """
    wanted = rb"(?<![\w.])%b\.%b\b" % (bound.encode(), name.encode())
    found = (one.start() for one in islice(re.finditer(wanted, text), MOST_USES))
    late = {_is_in_function(text, at) for at in found if not is_in_text(text, at)}
    return False in late, True in late


def is_in_text(text: bytes, at: int) -> bool:
    """Return whether a place in a module seems to be in a comment or a long string."""
    line = text[text.rfind(b"\n", 0, at) + 1 : at]
    return b"#" in line or any(text.count(mark, 0, at) % 2 for mark in (b'"""', b"'''"))


def _is_in_function(text: bytes, at: int) -> bool:
    """Return whether a place in a module is in the body of a function, by its indentation."""
    start = text.rfind(b"\n", 0, at) + 1
    line = text[start:at]
    depth = len(line) - len(line.lstrip())
    while depth and start > 0:
        end, start = start - 1, text.rfind(b"\n", 0, start - 1) + 1
        line = text[start:end].strip()
        around = end - start - len(text[start:end].lstrip())
        if line and around < depth:
            depth = around
            if line.startswith((b"def ", b"async def ")):
                return True
    return False


def line_of_import(tree: ast.Module, module: str, name: str) -> int:
    """Return the line on which a module certainly imports `name`, as written; 0 if none does."""
    return next((node.lineno for node in tree.body if _imports(node, module, name)), 0)


def _imports(node: ast.AST, module: str, name: str) -> bool:
    """Return whether a statement imports `name`, or if that is empty, something, from a module."""
    if isinstance(node, ast.ImportFrom):
        written = "." * node.level + (node.module or "")
        return written == module and (not name or name in {one.name for one in node.names})
    names = {one.name for one in node.names} if isinstance(node, ast.Import) else set()
    return not name and module in names


def line_of_use(tree: ast.Module, bound: str, name: str, *, lazy_annotations: bool) -> int:
    """Return the line on which ``bound.name`` is certainly read during the import; 0 if none."""
    if _is_rebound(tree, bound.partition(".")[0]):
        return 0
    later = lazy_annotations or any(isinstance(n, ast.ImportFrom) and n.module == "__future__" and
                "annotations" in {one.name for one in n.names} for n in tree.body)  # fmt: skip
    for node in _executed(tree.body, annotations=not later):
        if _is_read(node, bound, name):
            return node.lineno
    return 0


def line_of_call(tree: ast.Module, bound: str, name: str) -> int:
    """Return the line on which a function certainly reads ``bound.name``; 0 if none does."""
    root = bound.partition(".")[0]
    for function, one in _in_functions(tree.body, lambda one: _is_read(one, bound, name)):
        given = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
        if root not in given:
            return 0 if _is_rebound(tree, root) else getattr(one, "lineno", 0)
    return 0


def line_of_inner_import(tree: ast.Module, module: str, name: str) -> int:
    """Return the line on which a function certainly imports `name`, as written; 0 if none does."""
    found = _in_functions(tree.body, lambda one: _imports(one, module, name))
    return next((getattr(one, "lineno", 0) for _, one in found), 0)


def _in_functions(
    statements: Sequence[ast.stmt], wanted: Callable[[ast.AST], bool]
) -> Iterator[tuple[ast.stmt, ast.AST]]:
    """Yield each function with a wanted node, and that, if it is reached whatever is installed.

    A function that looks at versions or at what there is, or that tries, may know better.
    """
    for one in statements:
        if isinstance(one, ast.ClassDef):
            yield from _in_functions(one.body, wanted)
        if not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        found = [node for node in ast.walk(one) if wanted(node)]
        if found and not re.search(_CAREFUL, ast.unparse(one)):
            tries = [node for node in ast.walk(one) if isinstance(node, ast.Try)]
            tried = {node for each in tries for node in ast.walk(each)}
            yield from ((one, node) for node in found if node not in tried)


def _is_read(node: ast.AST, bound: str, name: str) -> TypeGuard[ast.Attribute]:
    """Return whether an expression is ``bound.name``, read."""
    if not isinstance(node, ast.Attribute) or node.attr != name:
        return False
    plain = isinstance(node.value, ast.Name | ast.Attribute)
    return plain and isinstance(node.ctx, ast.Load) and ast.unparse(node.value) == bound


def _is_rebound(tree: ast.Module, bound: str) -> bool:
    """Return whether a name may be something else than what one import statement binds."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            where = "" if node in tree.body else str(node.lineno)
            for one in node.names:
                top = one.name.partition(".")[0]
                if bound == (one.asname or top):
                    found.add(f"{where}{one.name if one.asname else top}")
        elif isinstance(node, ast.ImportFrom):
            where = f"{node.level} {node.module} {'' if node in tree.body else node.lineno}"
            found |= {f"{where} {n.name}" for n in node.names if bound == (n.asname or n.name)}
        elif isinstance(node, ast.Name):
            found |= (
                {str(node)} if node.id == bound and not isinstance(node.ctx, ast.Load) else set()
            )
        elif not isinstance(node, ast.alias) and getattr(node, "name", "") == bound:
            found.add(str(node))  # a function, a class, an exception, a captured pattern
    return len(found) != 1


def _executed(statements: Sequence[ast.stmt], *, annotations: bool) -> Iterator[ast.AST]:
    """Yield the expressions that are certainly evaluated when the statements are executed."""
    for statement in statements:
        todo: list[ast.AST | None] = []
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            given = statement.args
            todo += [*statement.decorator_list, *given.defaults, *given.kw_defaults]
            if annotations:
                several = (*given.posonlyargs, *given.args, *given.kwonlyargs)
                todo += [one.annotation for one in several]
                todo += [statement.returns]
        elif isinstance(statement, ast.ClassDef):
            todo += [*statement.decorator_list, *statement.bases]
            todo += [one.value for one in statement.keywords]
            yield from _executed(statement.body, annotations=annotations)
        elif isinstance(statement, ast.AnnAssign):
            todo += [statement.value, statement.annotation if annotations else None]
        elif isinstance(statement, ast.Assign | ast.AugAssign | ast.Expr):
            todo.append(statement.value)
        while todo:
            node = todo.pop()
            if isinstance(node, _COMPREHENSIONS):
                todo.append(node.generators[0].iter)  # the rest only if that is not empty
            elif node and not isinstance(node, ast.Lambda | ast.BoolOp | ast.IfExp):
                yield node
                todo += ast.iter_child_nodes(node)
