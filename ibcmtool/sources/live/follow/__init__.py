"""`follow:FILE`: a capture that is still being written, rotated, or replaced by the next one."""
