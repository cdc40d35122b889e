"""Upkeep: compaction, validation, configuration, and the place of a table.

Where to change what:
    which fragments are rewritten together: `compact_plan`; how: `compact_rewrite`; the steps:
        `compact`
    a check: `validate.manifest_findings`, which reads nothing, or `validate.findings`, which does
    what a table is told about itself: `config`
    where a table lies, as a whole: `place` (`check_store`, `drop`, `migrate_manifest_paths_v2`)
"""
