"""File and table formats: bytes to arrays and metadata, and back. Pure: no I/O."""
