"""`-`: a capture that another program writes to our standard input."""
