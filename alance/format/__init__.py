"""The format: bytes to arrays and metadata, and back. Nothing here waits."""
