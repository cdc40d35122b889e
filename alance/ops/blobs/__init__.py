"""Blob columns: how users declare them, what tables say of them, where their bytes are.

Blobs are read in `read.blobs` (as files) and `read.blob_bytes` (as bytes), and move with their rows
in `write.blob_moves`; all of these build on this room.

Where to change what:
    the Arrow fields that users declare: `arrow`
    descriptions below structs and lists, from these to the bytes, a new kind of place: `places`
    objects beside a data file, what becomes of URIs, `BlobOptions`: `files`
"""
