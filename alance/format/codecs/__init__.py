"""Compressive encodings of file version 2.1 and later.

Codecs have a table for each use: blocks (`block.py`: levels, dictionaries), and the values of
mini-block and full-zip pages, beside these layouts (`layouts/miniblock.py`, `layouts/fullzip.py`).
A table maps message names to functions that parse a description into the kernel's form; other
codecs are not allowed for the use.
Modules may import `format.blocks` and the layers below it.
"""
