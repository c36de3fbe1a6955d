"""Public rules on rows: how they are written, which cells they forbid, which rows and pairs break them."""
