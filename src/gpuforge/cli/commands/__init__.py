"""The commands: one module each, named after the command.

A command defines ``SUMMARY`` (one line), ``add_arguments(parser)`` and ``run(arguments) -> int``.
"""
