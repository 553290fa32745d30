"""The session and the cluster in force; looking them up imports neither."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuforge.runtime.session import Session

current: ContextVar[Session | None] = ContextVar("gpuforge_session", default=None)
cluster: ContextVar[Any] = ContextVar("gpuforge_cluster", default=None)
"""The `Cluster` of the innermost ``with gpuforge.cluster(...)``."""
