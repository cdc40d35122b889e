"""The version of the project, defined only here: `pyproject.toml` reads it."""

__version__ = "0.1.0"
