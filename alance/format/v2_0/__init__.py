"""File version 2.0: pages are trees of array encodings; lists have columns of offsets."""
