"""Calls that are queued, batched, or run elsewhere: tasks, maps and clusters."""
