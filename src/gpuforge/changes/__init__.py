"""What alters a machine: a plan, shown first; then its actions; and a record to undo them.

Nothing here asks for more rights than the user has, and nothing is deleted: what goes is kept
beside the record. ``action`` holds the kinds of change, ``plan`` the plan, ``apply`` what makes and
undoes it, ``record`` what was done.
"""
