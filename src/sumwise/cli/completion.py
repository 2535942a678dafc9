"""`sumwise completion`."""

from __future__ import annotations

from typing import Final

import rich_click as click

from sumwise.cli.options import command
from sumwise.cli.output import suggest

SHELLS: Final = {
    "bash": 'Put this in ~/.bashrc: eval "$(sumwise completion bash)"',
    "zsh": 'Put this in ~/.zshrc, after compinit: eval "$(sumwise completion zsh)"',
    "fish": "Run: sumwise completion fish > ~/.config/fish/completions/sumwise.fish",
}


@command(
    click.argument("shell", metavar="bash|zsh|fish", type=click.Choice(list(SHELLS))),
    click.pass_context,
)
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script for shell completion.

    The shell then completes commands, options and sets; claimed sets are offered first.

    \b
      eval "$(sumwise completion bash)"
      sumwise completion fish > ~/.config/fish/completions/sumwise.fish
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None  # a shell that click knows
    script = found(ctx.find_root().command, {}, "sumwise", "_SUMWISE_COMPLETE").source()
    click.echo(script)
    suggest("To have this in every new shell:", SHELLS[shell])
