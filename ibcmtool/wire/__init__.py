"""Bytes and messages: where a CM MAD is in a frame, what its fields hold, and packets around bare MADs."""
