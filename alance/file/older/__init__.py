"""Readers and writers of files of 0.1 and 2.0, imported with the first such file."""
