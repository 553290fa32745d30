"""Errors as a program's user meets them: in a traceback, and sent from another process."""

from __future__ import annotations

import pickle
import traceback

from gpuforge.errors import UnknownName, WorkloadError


def test_a_traceback_shows_the_hint_once_also_from_another_process() -> None:
    error = UnknownName.among("backend", "torhc", ["numpy", "torch"])
    for one in (error, pickle.loads(pickle.dumps(error))):
        assert (str(one), one.hint) == ("unknown backend 'torhc'", "did you mean 'torch'?")
        shown = "".join(traceback.format_exception_only(one))
        assert shown.endswith("unknown backend 'torhc'\nhint: did you mean 'torch'?\n")


def test_an_error_without_a_hint_has_no_note() -> None:
    assert not hasattr(WorkloadError("it is empty"), "__notes__")
