"""Searching by words: the rows whose texts match a query best, by BM25.

Where to change what:
    what can be asked: `query`; of rows or of the elements of lists: `granularity`
    which segments of which index are asked, and for which fragments: `segments`
    how the files of an index are read, and what of them is kept: `files`
    which tokens a query asks for: `terms`
    the documents of an index that match, and their scores: `scores`
    the rows that no index covers: `flat`
    a column with its index, words and uncovered rows: `column`; several as one: `fields`
    all of it together: `answer`; the table that comes of it: `results`; what is told: `explained`
    both kinds of searches at once: `hybrid`; how their rankings become one: `fusion`
    the bytes of the index files, and how texts become tokens: `alance.format.index.text`
"""
