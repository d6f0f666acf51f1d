"""H: a REJ held against the state that its sender must be in, and against the REQ that it answers."""
