"""The decisions, pure: events and the time go in, decisions come out, nothing is performed."""
