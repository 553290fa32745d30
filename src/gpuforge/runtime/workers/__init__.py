"""Worker processes, in which libraries and functions may crash without ending the program."""
