"""Engines: where the rows of a table are and who counts them, behind one protocol."""
