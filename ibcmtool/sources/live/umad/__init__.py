"""`umad[:DEV[:PORT]]`: the CM MADs that are sent to ports of this host, by ib_umad."""
