"""The HTML page of a profile: its data columns, its sections, and the scripts for its graphs.

The sections are rendered in Python and readable without scripts; the scripts draw the graphs from
the columns and make the tables sortable.
"""
