"""F: the MAD around a CM message, and what else is wrong with its bytes."""
