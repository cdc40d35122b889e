"""Blob columns: how callers declare them, their descriptions in tables, and where their bytes are.

Blobs are read in `read.blobs` (as files) and `read.blob_bytes` (as bytes), and move with their rows
in `write.blob_moves`; all of these build on this room.

Where to change something:
    Arrow fields that callers declare: `arrow`
    descriptions below structs and lists, their bytes, a new kind of place: `places`
    objects beside a data file, treatment of URIs, `BlobOptions`: `files`
    objects that callers write themselves: `writers`
"""
