"""The verbs of a dataset, by capability: one room each.

Each room's docstring says what the room does, and where a new verb, option or rule belongs.
`pyproject.toml` has the contract of import-linter about which room may import which;
`docs/architecture.md` has the picture. The public part of a verb is a method in `alance.verbs` or
`alance.datasets`.
"""
