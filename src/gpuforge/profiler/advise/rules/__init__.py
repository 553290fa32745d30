"""One module per rule; the file name is the rule's name.

A rule holds ``SOURCE`` (where the rule comes from) and ``look(facts) -> Iterator[Suggestion]``. The
first paragraph of its docstring says what it looks for; the one that begins with ``Bound:`` how the
most that can be gained is computed. ``SAMPLES``: how many measurements it needs, if fewer than
usual, because each of them is long.
"""
