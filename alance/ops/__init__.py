"""The verbs of a dataset, one a file."""
