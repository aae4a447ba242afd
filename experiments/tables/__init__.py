"""The tables of the docs, page by page."""
