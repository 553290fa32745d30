"""One module per question; the file name is the check's name.

A check holds ``SUMMARY`` (one line) and ``check(site) -> Iterator[Finding]``. ``SLOW = True``: it
takes seconds and runs when named; ``NETWORK = True``: it needs the network; ``SECONDS``: its limit.
"""
