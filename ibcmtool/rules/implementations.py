"""X07: whose CM speaks."""
