"""The versions of one dataset."""
