"""What placement must know about a device in another process, as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpuforge.dataclass import dataclass
from gpuforge.runtime.backends import Backend

if TYPE_CHECKING:
    from gpuforge.runtime.lowering.contract import Lowering

_DTYPES = "?bBhHiIlLqQefdgFDG"


@dataclass(frozen=True)
class Description:
    """One device, and the operations that it computes as NumPy does.

    Attributes
    ----------
    refused : operation to type code of a dtype to why it is refused for inputs of that dtype
    """

    name: str
    version: str
    compiles: bool
    compile_seconds: float
    deterministic: bool
    library: str
    functions: tuple[str, ...]
    dtypes: frozenset[str]
    guarded: tuple[str, ...]
    refused: dict[str, dict[str, str]]

    def lowering(self) -> Lowering:
        """Return a lowering that only knows what is refused; its functions are in the worker."""
        from gpuforge.runtime.lowering.contract import Lowering

        return Lowering(
            self.library,
            dict.fromkeys(self.functions, _elsewhere),
            self.dtypes,
            guards=dict.fromkeys(self.guarded, _elsewhere),
            refused={name: _refusal(known) for name, known in self.refused.items()},
        )


def described(backend: Backend) -> Description:
    """Return the description of a device that is open in this process."""
    lowering = backend.lowering
    kinds = {char: np.dtype(char) for char in _DTYPES if char in lowering.dtypes}
    refused = {
        name: {char: reason for char, kind in kinds.items() if (reason := refusal(kind))}
        for name, refusal in lowering.refused.items()
    }
    return Description(
        backend.name, backend.version, backend.compiles, backend.compile_seconds,
        backend.deterministic, lowering.library, tuple(lowering.functions), lowering.dtypes,
        (*lowering.guards, *lowering.result_guards), refused,
    )  # fmt: skip


def _elsewhere(*_: Any) -> Any:
    raise AssertionError("it is done in the worker process")


def _refusal(known: dict[str, str]) -> Any:
    return lambda dtype: known.get(dtype.char, "")
