"""C: what captures lack or have too much of, so that nobody takes a gap for a fault."""
