"""The file formats to which a plan can be exported, one module per format, named after it.

Each module defines ``FILE_NAME`` and ``render(plan) -> str``, which raises `PlanRefused` for a plan
that the format cannot express.
"""
