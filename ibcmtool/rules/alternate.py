"""L: alternate paths: LAP and APR (IBA 12.8)."""
