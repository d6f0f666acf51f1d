"""H: the order of a handshake, and what belongs to what (IBA 12.6, 12.9.7)."""
