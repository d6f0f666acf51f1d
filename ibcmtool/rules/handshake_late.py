"""H: messages that come when nothing expects them: repeated, late, or for nothing."""
