"""What the tests stand on: both loops, the checks for leaks, and small instruments."""
