"""Structural encodings of file version 2.1 and later."""
