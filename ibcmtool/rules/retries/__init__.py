"""R: messages that are sent again, and the time that answers take (IBA 12.6.6, 12.7, 12.9.7)."""
