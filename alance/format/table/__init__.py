"""The table format as immutable data: manifests, transactions, fragments, refs. No I/O."""
