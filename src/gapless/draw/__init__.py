"""SVG and HTML building blocks: they know names, numbers and texts, and nothing of any other room."""
