"""Renderers over the analysis records: text, ladder, JSON. They compute nothing about the protocol."""
