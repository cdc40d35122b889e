"""Versions of a dataset: manifests in the store, the commit loop, tags and branches."""
