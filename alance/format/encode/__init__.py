"""Encodes Arrow arrays to pages of file version 2.1 and later: inverts codecs and layouts."""
