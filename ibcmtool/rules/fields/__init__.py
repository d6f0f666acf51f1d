"""F: what the fields of a message say, held against each other and against the packet that brought them."""
