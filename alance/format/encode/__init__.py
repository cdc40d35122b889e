"""Encoder of Arrow arrays as pages of 2.1 and later: the inverse of codecs and layouts."""
