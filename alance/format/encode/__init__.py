"""Arrow arrays to pages of file version 2.1 and later: the mirror of codecs and layouts."""
