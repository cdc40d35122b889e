"""Blob columns: their declaration, their descriptions in tables, the location of their bytes.

`read.blobs` reads blobs as files, `read.blob_bytes` reads them as bytes, and `write.blob_moves`
moves them with their rows; all of these use this room.

Where to change something:
    Arrow fields that callers declare: `arrow`
    descriptions below structs and lists, their bytes, a new kind of place: `places`
    objects beside a data file, treatment of URIs, `BlobOptions`: `files`
    objects that callers write themselves: `writers`
"""
