"""Versions of one dataset: manifests on the store, the commit loop, tags and branches."""
