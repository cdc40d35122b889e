"""Compressive encodings of file version 2.1 and later.

Codecs have a table for each use: values of mini-block pages (`mini_block.py`), values of full-zip
pages (`per_value.py`), and blocks (`block.py`: levels, dictionaries). A table maps message names to
functions that parse a description into the kernel's form; other codecs are not allowed for the use.
Modules may import `format.blocks` and the layers below it.
"""
