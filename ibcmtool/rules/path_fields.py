"""F: the path records in a REQ or LAP, held against each other and against the packet that carried them."""
