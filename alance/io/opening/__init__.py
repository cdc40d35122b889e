"""From a URI and storage options to an open store: options, credentials, the registry of stores.

Secrets are known here, and which options may leave the process. May import `disk`, `cloud` and the
folders below them.
"""
