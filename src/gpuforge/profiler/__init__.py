"""Where the time of a program went: what was recorded of it, kept in a file, read and shown.

A session file (``.gfp``) is read into a `Profile`; passes over it are pure (`breakdown`, `paths`),
and what shows it is one module each in ``formats``.
"""
