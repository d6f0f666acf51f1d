"""R: what the timers in a REQ add up to, and how near to them the answers came."""
