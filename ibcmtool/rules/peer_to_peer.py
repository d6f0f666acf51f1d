"""H20: both ends send a REQ to each other at once (IBA 12.10)."""
