"""The command `alance`: tables, rows, versions, files and upkeep from a shell.

`main` parses and runs. Each module has the subcommands of one subject: their arguments, and what
they do by the public functions of `alance`. What is printed are `OutputFacts` and `OutputRows`.
"""

from alance.command.main import main

__all__ = ["main"]
