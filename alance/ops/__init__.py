"""The verbs of a dataset, by capability: one room each.

Each room's docstring says what it does, and where a new verb, option or rule of it goes. Which room
may import which is a contract of import-linter, in `pyproject.toml`; `docs/architecture.md` has the
picture. A verb's public face is a method in `alance.verbs` or `alance.datasets`.
"""
