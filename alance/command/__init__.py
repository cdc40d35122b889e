"""The command `alance`: tables, rows, versions, files and upkeep from a shell.

`main` parses and runs. Each module has the subcommands of one subject: their arguments, and for
each a function that calls public functions of `alance` and returns an `Output` to print.
"""

from alance.command.main import main

__all__ = ["main"]
