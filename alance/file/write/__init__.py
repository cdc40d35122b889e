"""Writing of data files: rows are buffered up to a page, encoded and uploaded."""
