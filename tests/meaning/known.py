"""Patterns that may differ, each with its reason: impure, the traceback's text, or contrived."""

KNOWN: dict[str, str] = {
    "results.type_result": "contrived: type(x) names the recorded array, isinstance does not",
}
