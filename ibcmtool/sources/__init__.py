"""Where frames come from: files, and what happens now (live)."""
