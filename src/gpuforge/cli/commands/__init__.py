"""One module per command; the file name is the command's name.

A command holds ``SUMMARY`` (one line), ``add_arguments(parser)`` and ``run(arguments) -> int``.
"""
