"""The files a plan can be written as; one module a format, its name is the format's.

A format holds ``FILE_NAME`` and ``render(plan) -> str``. It raises `PlanRefused` for a plan that it
cannot express.
"""
