"""X: what shows only across connections, or across captures of the same packets."""
