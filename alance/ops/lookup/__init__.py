"""Asking indices: which rows a filter may be true of.

Reads ask (`read.filtering`), and take the rows that come out (`read.picked`). A damaged index, or
one of an unknown kind, is not used: the read is slower, and no more. Indices are made and kept by
the room `index`.

Where to change what:
    which indices of a version answer filters, a new kind of them: `segments`
    whether a lookup is worth it, how answers are joined: `look_up`
    how one segment is asked, and which questions a kind takes: `ask`; of zones: `zones`
    how its files are read, and what of them is kept in the search cache: `files`
"""
