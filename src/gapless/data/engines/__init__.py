"""Engines, which hold the rows of a table or reach them, and count them. All have one protocol."""
