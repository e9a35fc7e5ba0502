"""The journal: the log that lets accepted jobs survive the death of their parent."""
