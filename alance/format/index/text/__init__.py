"""Files of inverted indices, and the splitting of texts into tokens.

Where to change something:
    splitting and normalization of texts: `params`, `analyzer`, `folding`, `stop_words`
    metadata of a segment's files: `metadata`
    tokens and their numbers: `dictionary`
    posting lists and positions: `postings`
"""
