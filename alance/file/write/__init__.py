"""Writing of a data file: rows wait for a page, pages are encoded and leave."""
