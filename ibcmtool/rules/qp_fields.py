"""F: the QP attributes that REQ and REP agree on (IBA 12.7)."""
