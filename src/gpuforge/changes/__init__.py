"""Changes to the machine: a plan that is shown first, its actions, and a record that undoes them.

No change asks for more rights than the user has, and nothing is deleted: whatever a change removes
is saved with its record. ``action`` defines the kinds of change and ``plan`` the plan; ``apply``
makes and undoes the changes, and ``record`` stores what was done.
"""
