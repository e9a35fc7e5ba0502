"""Benchmarks of asyncpool beside what else there is: `python -m benchmarks --help`.

Workers import this package to find their jobs, so nothing is loaded here.
"""
