"""HTML pages that show traces of requests, and the layout of data files."""
