"""Upkeep: compaction, validation, repair, configuration, and tables as a whole.

Where to change what:
    groups of fragments: `compact_plan`; their rewrite: `compact_rewrite`; the steps: `compact`
    checks: `validate.manifest_findings` (no requests), or `validate.findings` (reads files)
    repairs: `remedies`
    configuration and metadata of tables and fields: `config`
    checking a store, dropping or migrating a table: `place`
"""
