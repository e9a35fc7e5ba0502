"""The child's room: what runs in a worker process.

It imports the standard library sparingly, and of this package only `frames` and `raised`: all of
it is paid at every respawn.
"""
