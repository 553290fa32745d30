"""The report on the trials to make predictions faster."""

from __future__ import annotations

from dataclasses import dataclass

from gpuforge.units import format_seconds


@dataclass(frozen=True)
class Trial:
    """One way to run a model, tried on the first batch of some inputs.

    Attributes
    ----------
    name : the option that it adds to the way in use before
    seconds, against_seconds : time of one batch, and of the same batch in the way used before,
        measured alternately; None if it was not timed
    first_seconds : time of its first batch, including preparation such as compilation
    difference : largest difference from the plain result, relative to the largest magnitude in that
        result; None without a result
    used : whether later predictions use it
    note : why it is not used; empty if it is
    """

    name: str
    seconds: float | None = None
    against_seconds: float | None = None
    first_seconds: float | None = None
    difference: float | None = None
    used: bool = False
    note: str = ""


@dataclass(frozen=True)
class Report:
    """How predictions are made, and why. Print it, or read its fields.

    Attributes
    ----------
    model : the kind of model, and where it runs
    used : how inputs like the latest ones are predicted: ``"plain"``, or the options in use
    batch : items in a batch; None if inputs are not split
    tolerance : the largest accepted difference from a plain result
    trials : the ways that were tried, in order
    notes : sentences about batches, memory and parameters
    """

    model: str
    used: str
    batch: int | None
    tolerance: float
    trials: tuple[Trial, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        batch = "all items at once" if self.batch is None else f"{self.batch} items at once"
        lines = [f"{self.model}: {self.used}, {batch}"]
        if self.trials:
            cells = [("tried", "batch", "before", "first", "difference", "")]
            cells += map(_cells, self.trials)
            widths = [max(len(line[i]) for line in cells) for i in range(5)]
            for line in cells:
                columns = [cell.ljust(w) for cell, w in zip(line, widths, strict=False)]
                lines.append("  " + "  ".join([*columns, line[5]]).rstrip())
            lines.append(f"accepted up to a difference of {self.tolerance:g}")
        return "\n".join([*lines, *self.notes])


def _cells(trial: Trial) -> tuple[str, str, str, str, str, str]:
    times = (trial.seconds, trial.against_seconds, trial.first_seconds)
    a, b, c = ("-" if one is None else format_seconds(one) for one in times)
    difference = "-" if trial.difference is None else f"{trial.difference:.1e}"
    return trial.name, a, b, c, difference, "used" if trial.used else trial.note
