"""Worker processes: libraries and functions that may crash without taking the program along."""
