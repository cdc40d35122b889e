"""File version 0.1: batches of rows, a page a field and batch, a table of the pages."""
