"""Writing of a data file: rows are buffered up to a page, encoded and uploaded."""
