"""T: timewait, and the reuse of QPNs and Communication IDs."""
