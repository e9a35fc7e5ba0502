"""The demo's job. Every worker imports this module with its first job, so it imports nothing."""


def fib(n: int) -> int:
    """Return the n-th Fibonacci number, the slow way."""
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def fib_quickly(n: int) -> int:
    """Return the same by another way, to prove it."""
    this, following = 0, 1
    for _ in range(n):
        this, following = following, this + following
    return this
