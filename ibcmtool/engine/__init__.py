"""Decoder, tracker and judge, put together: over captures (files.py) and over what happens now (live.py)."""
