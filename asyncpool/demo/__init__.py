"""`asyncpool demo`: Fibonacci numbers from workers that really crash, told as it happens."""
