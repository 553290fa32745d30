"""Patterns that may differ, each with its reason: impure, the traceback's text, or contrived."""

KNOWN: dict[str, str] = {
    "protocols.type_is_ndarray": "contrived: type(x) names the recorded array, isinstance does not",
    "results.type_result": "contrived: type(x) names the recorded array, isinstance does not",
}
