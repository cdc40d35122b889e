"""Opening of stores by URI and storage options: options, credentials, the registry of stores.

Only this folder handles secrets, and decides which options may leave the process. May import
`disk`, `cloud` and the folders below them.
"""
