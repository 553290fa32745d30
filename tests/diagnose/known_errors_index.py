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
    """Return the index of the files as they are, one cause a line."""
    errors = []
    for cause, head, _ in files():
        table = tomllib.loads(head)
        texts = [text for clue in map(known_error.parse_clue, table["clues"]) for text in clue.find]
        machine = [""] if any("machine" in clue for clue in table["clues"]) else []
        table["words"] = [sorted({*words_of(text)}) for text in (*texts, *machine)]
        errors.append(f"{json.dumps(cause)}: {json.dumps(table)}")
    contexts = json.dumps(
        tomllib.loads((known_error.HERE / "contexts.toml").read_text(encoding="utf-8"))
    )
    return '{"contexts": ' + contexts + ',\n"errors": {\n' + ",\n".join(errors) + "}}\n"


if __name__ == "__main__":
    known_error.INDEX.write_text(build_index(), encoding="utf-8")
