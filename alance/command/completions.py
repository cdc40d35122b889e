"""Command `completions`: scripts with which a shell completes subcommands and options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.command.output import Text

if TYPE_CHECKING:
    import argparse

    from alance.command.arguments import Parsers

SHELLS = ("bash", "zsh", "fish")


def add_to(parsers: Parsers, whole: argparse.ArgumentParser) -> None:
    """Add the subcommand, which completes the subcommands that were added before it."""
    summary = "print completions of a shell, to be sourced"
    parser = parsers.add_parser("completions", help=summary, description=summary)
    parser.add_argument("shell", choices=SHELLS)
    options = {name: sorted(_options(below)) for name, below in parsers.choices.items()}

    async def run(args: argparse.Namespace) -> Text:
        return Text(_SCRIPTS[args.shell](options, sorted(_options(whole))))

    parser.set_defaults(run=run)


def _options(parser: argparse.ArgumentParser) -> list[str]:
    listed = [text for action in parser._actions for text in action.option_strings]
    return [text for text in listed if text.startswith("--")]


def _bash(options: dict[str, list[str]], general: list[str]) -> str:
    cases = "\n".join(f"    {name}) words='{' '.join(own)}' ;;" for name, own in options.items())
    return f"""_alance() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" words
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
    lines = [f"{first} -f -a '{' '.join(options)}'"]
    lines += [f"{first} -l {text.removeprefix('--')}" for text in general]
    for name, own in options.items():
        seen = f"complete -c alance -n '__fish_seen_subcommand_from {name}'"
        lines += [f"{seen} -l {text.removeprefix('--')}" for text in own]
    return "\n".join(lines)


_SCRIPTS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
