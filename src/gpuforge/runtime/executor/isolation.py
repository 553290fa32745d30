"""Tasks with a hard time limit: functions called in a worker process that is killed for it."""

from gpuforge.runtime.workers.functions import call_isolated, close_idle

__all__ = ["call_isolated", "close_idle"]
