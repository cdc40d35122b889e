"""Upkeep: compaction, cleanup, validation, configuration, and the end of a table.

Where to change what:
    which fragments are rewritten together: `compact_plan`; how: `rewrite`; the steps: `compact`
    which versions a cleanup removes: `cleanup_policy`; which files are whose: `cleanup_files`
    a check of `validate`: `validate_manifest`, which reads nothing, or `validate`, which does
    what a table is told about itself: `config`
    a verb: a module of its own, as `migrate`, `check_store` and `drop` are
"""
