"""The one index of the known errors, made from their files.

usage: python tests/diagnose/known_errors_index.py    (after a change to a file)
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from itertools import product
from typing import Any

from gpuforge.diagnose import known_error
from gpuforge.diagnose.log import words_of


def files() -> Iterator[tuple[str, str, str]]:
    """Yield name, head and tests of each file; the tests are samples for the test suite."""
    for path in sorted(known_error.FOLDER.glob("*.toml")):
        head, _, tests = path.read_text(encoding="utf-8").partition("\n[tests]\n")
        yield path.stem, head, tests


def _table(name: str) -> dict[str, Any]:
    return tomllib.loads((known_error.HERE / name).read_text(encoding="utf-8"))


def in_full(clue: dict[str, Any], wordings: dict[str, Any]) -> dict[str, Any]:
    """Return a clue with the wordings in the place of their names."""
    name = re.compile(f"<({'|'.join(wordings)})>")
    full = dict(clue)
    if name.search(str(clue.get("find", ""))):
        texts = [clue["find"]] if isinstance(clue["find"], str) else clue["find"]
        full["find"] = list(dict.fromkeys(one for text in texts for one in _texts(text, wordings)))
    if "match" in clue:
        full["match"] = name.sub(lambda found: _group(wordings[found[1]]), clue["match"])
    return full


def _texts(text: str, wordings: dict[str, Any]) -> Iterator[str]:
    parts = re.split(f"<({'|'.join(wordings)})>", text)
    choices = [wordings[part] if odd % 2 else [part] for odd, part in enumerate(parts)]
    for several in product(*choices):
        yield " ".join("".join(several).split())


def _group(wording: str | list[str]) -> str:
    return wording if isinstance(wording, str) else f"({'|'.join(wording)})"


def build_index() -> str:
    """Return the index of the files as they are: words, contexts, languages, one cause a line."""
    words, errors = {}, []
    wordings = _table("wordings.toml")
    for cause, head, _ in files():
        table = tomllib.loads(head)
        table["clues"] = [in_full(clue, wordings) for clue in table["clues"]]
        texts = [text for clue in map(known_error.parse_clue, table["clues"]) for text in clue.find]
        machine = [""] if any("machine" in clue for clue in table["clues"]) else []
        several = {tuple(sorted({*words_of(text)})) for text in (*texts, *machine)}
        # What holds the words of another text as well is found by that one.
        words[cause] = sorted(one for one in several if not any({*one} > {*o} for o in several))
        errors.append(table)
    tables = [_table("contexts.toml"), _table("languages.toml")]
    return "".join(f"{json.dumps(part)}\n" for part in (words, *tables, *errors))


if __name__ == "__main__":
    known_error.INDEX.write_text(build_index(), encoding="utf-8")
