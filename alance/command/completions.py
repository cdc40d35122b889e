"""Command `completions`: scripts with which a shell completes subcommands, options and values.

For a value, a script calls `alance completions values LINE`.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from alance.command.output import Text
from alance.command.values import values_at

if TYPE_CHECKING:
    from alance.command.arguments import Parsers

SHELLS = ("bash", "zsh", "fish")
VALUES = "values"


def add_to(parsers: Parsers, whole: argparse.ArgumentParser) -> None:
    """Add the subcommand, which completes the subcommands that were added before it."""
    summary = "print completions of a shell, to be sourced"
    parser = parsers.add_parser("completions", help=summary, description=summary)
    parser.add_argument("shell", choices=[*SHELLS, VALUES])
    parser.add_argument("line", nargs="?", default="", help=argparse.SUPPRESS)
    options = {name: sorted(_options(below)) for name, below in parsers.choices.items()}

    async def run(args: argparse.Namespace) -> Text | None:
        if args.shell == VALUES:
            values = await values_at(parsers.choices, args.line)
            return Text("\n".join(values)) if values else None
        return Text(_SCRIPTS[args.shell](options, sorted(_options(whole))))

    parser.set_defaults(run=run)


def _options(parser: argparse.ArgumentParser) -> list[str]:
    listed = [text for action in parser._actions for text in action.option_strings]
    return [text for text in listed if text.startswith("--")]


def _bash(options: dict[str, list[str]], general: list[str]) -> str:
    cases = "\n".join(f"    {name}) words='{' '.join(own)}' ;;" for name, own in options.items())
    # Names of tables and columns are not trusted: they reach neither `compgen -W` nor a glob.
    return f"""_alance() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" words value
  COMPREPLY=()
  if [[ "$word" != -* && ( "$before" == --* || " ${{COMP_WORDS[*]}} " == *" --in "* ) ]]; then
    while IFS= read -r value; do COMPREPLY+=("$value"); done \\
      < <("${{COMP_WORDS[0]}}" completions {VALUES} "${{COMP_LINE:0:$COMP_POINT}}" 2>/dev/null)
    if [ "${{#COMPREPLY[@]}}" -gt 0 ]; then return; fi
  fi
  case "${{COMP_WORDS[1]}}" in
{cases}
    *) words='{" ".join([*options, *general])}' ;;
  esac
  if [ "$COMP_CWORD" -eq 1 ]; then words='{" ".join([*options, *general])}'; fi
  COMPREPLY=( $(compgen -W "$words" -- "$word") $(compgen -f -- "$word") )
}}
complete -o filenames -F _alance alance"""


def _zsh(options: dict[str, list[str]], general: list[str]) -> str:
    return "autoload -U +X bashcompinit && bashcompinit\n" + _bash(options, general)


def _fish(options: dict[str, list[str]], general: list[str]) -> str:
    first = "complete -c alance -n __fish_use_subcommand"
    values = f"(alance completions {VALUES} (commandline -cp) 2>/dev/null)"
    lines = [f"{first} -f -a '{' '.join(options)}'"]
    lines += [f"complete -c alance -n 'not __fish_use_subcommand' -a '{values}'"]
    lines += [f"{first} -l {text.removeprefix('--')}" for text in general]
    for name, own in options.items():
        seen = f"complete -c alance -n '__fish_seen_subcommand_from {name}'"
        lines += [f"{seen} -l {text.removeprefix('--')}" for text in own]
    return "\n".join(lines)


_SCRIPTS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
