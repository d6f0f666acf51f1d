"""`kernel`: every CM MAD that ib_cm of this host sends or receives, by probes in the running kernel."""
