"""The checks: one module each, named after the check.

A check has ``SUMMARY`` (one line), ``check(site) -> Iterator[Finding]`` and optionally ``SLOW``
(takes seconds, runs only if named), ``NETWORK`` (needs the network), ``LIVE`` (reads what recorded
machines do not contain) and ``SECONDS`` (time limit).
"""
