"""X: what the capture tells beside CM messages: who has an address now, and which RoCE version a host speaks."""
