"""The checks: one module each, named after the check.

A check defines ``SUMMARY`` (one line) and ``check(site) -> Iterator[Finding]``. Optional are
``SLOW = True`` (takes seconds, runs only if named), ``NETWORK = True`` (needs the network) and
``SECONDS`` (its time limit).
"""
