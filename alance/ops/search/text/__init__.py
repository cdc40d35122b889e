"""Full-text search: the rows whose texts best match a query, by BM25.

Modules may import `ops/search` and what it may import.

Where to change something:
    queries: `query`; documents that are rows or list elements: `granularity`
    choice of the segments of an index, and of their fragments: `segments`
    reading and caching of the files of an index: `files`
    words that a query requests: `terms`
    matching documents of an index, and their scores: `scores`
    rows that no index covers: `flat`
    a column with its index, words and uncovered rows: `column`; several columns as one: `fields`
    all of it together: `answer`, as a kind of search: `search`; explanations: `explained`
    text and vector search at once: `hybrid`; fusion of the two rankings: `fusion`
    bytes of the index files, and splitting of texts into tokens: `alance.format.index.text`
"""
