"""The store of local files: descriptors and reads, files published whole, uploads.

May import `events`, `stores` and `loop`; nothing of obstore.
"""
