"""Files, frames and database addresses in and out."""
