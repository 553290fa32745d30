"""The one index of the known errors, made from their files.

usage: python tests/diagnose/known_errors_index.py    (after a change to a file)
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator

from gpuforge.diagnose import known_error
from gpuforge.diagnose.log import words_of


def files() -> Iterator[tuple[str, str, str]]:
    """Yield name, head and tests of each file; the tests are samples for the test suite."""
    for path in sorted(known_error.FOLDER.glob("*.toml")):
        head, _, tests = path.read_text(encoding="utf-8").partition("\n[tests]\n")
        yield path.stem, head, tests


def build_index() -> str:
    """Return the index of the files as they are: words, contexts, languages, one cause a line."""
    words, errors = {}, []
    for cause, head, _ in files():
        table = tomllib.loads(head)
        texts = [text for clue in map(known_error.parse_clue, table["clues"]) for text in clue.find]
        machine = [""] if any("machine" in clue for clue in table["clues"]) else []
        several = {tuple(sorted({*words_of(text)})) for text in (*texts, *machine)}
        # What holds the words of another text as well is found by that one.
        words[cause] = sorted(one for one in several if not any({*one} > {*o} for o in several))
        errors.append(table)
    tables = [
        tomllib.loads((known_error.HERE / name).read_text(encoding="utf-8"))
        for name in ("contexts.toml", "languages.toml")
    ]
    return "".join(f"{json.dumps(part)}\n" for part in (words, *tables, *errors))


if __name__ == "__main__":
    known_error.INDEX.write_text(build_index(), encoding="utf-8")
