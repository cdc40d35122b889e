"""Readers and writers of 0.1 and 2.0 files. They are imported with the first such file."""
