"""Inverted indices: the documents that have a token, and how texts become tokens.

Where to change what:
    how texts are split, and what becomes of tokens: `params`, `analyzer`, `folding`, `stop_words`
    what a segment's files say of themselves: `metadata`
    tokens and their numbers: `dictionary`
    posting lists and positions: `postings`
    the columns of new files: `columns`
"""
