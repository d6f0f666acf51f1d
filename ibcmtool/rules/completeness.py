"""X: how complete the capture is, and in what order its times stand."""
