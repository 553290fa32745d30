"""What was tried to make predictions faster, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass

from gpuforge.units import format_seconds


@dataclass(frozen=True)
class Trial:
    """One way to run a model, tried on the first batch of some inputs.

    Attributes
    ----------
    name : what it adds to what was used before it
    seconds, against_seconds : one batch, and the same batch as used before, timed in turns; None
        where it was not timed
    first_seconds : its first batch, with whatever had to be prepared
    difference : the largest one from a plain result, over the largest magnitude of that result;
        None where there is no result
    used : whether predictions are made this way from then on
    note : why not; empty where they are
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
    """How predictions are made, and why. ``print`` it, or read its fields.

    Attributes
    ----------
    model : what it is, and what runs it
    used : the way that inputs like the last ones are predicted: ``"plain"``, or what was added
    batch : items given at once; None where inputs are not split
    tolerance : the largest difference from a plain result that is accepted
    trials : what was tried, in order
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
