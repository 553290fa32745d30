"""The page of a profile in HTML: its columns, its sections, and what draws its graphs.

The sections are written here and can be read without scripts; `page.js` draws the graphs from the
columns, and makes the tables sortable.
"""
