"""I: service id resolution: SIDR_REQ and SIDR_REP (IBA 12.11)."""
