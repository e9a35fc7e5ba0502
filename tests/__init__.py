"""The tests; a package, so that workers can import the jobs in `tests.support.jobs`."""
