"""The session that a block of code holds; it knows nothing of sessions, so that asking is cheap."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuforge.runtime.session import Session

current: ContextVar[Session | None] = ContextVar("gpuforge_session", default=None)
