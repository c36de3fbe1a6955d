"""SVG and HTML building blocks. They take names, numbers and texts, and import no other package but `text`."""
