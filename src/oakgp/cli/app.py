"""The program: its commands, and how mistakes end it."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from typing import Annotated

import typer

from oakgp.cli import learning, looking, screen, sharing

app = typer.Typer(
    name="oakgp",
    help="Interpretable additive Gaussian processes for tables.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
state = {"debug": False}


def _version(asked: bool) -> None:
    if asked:
        from oakgp import __version__

        typer.echo(f"oakgp {__version__}")
        raise typer.Exit


@app.callback()
def settings(
    debug: Annotated[bool, typer.Option(help="Show tracebacks of errors.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Interpretable additive Gaussian processes for tables.

    Begin with `oakgp demo`, or `oakgp fit data.csv --target y -o model.oak`.
    """
    state["debug"] = debug or state["debug"]


app.command()(learning.fit)
app.command()(learning.predict)
app.command()(learning.truncate)
app.command()(looking.show)
app.command()(looking.explain)
app.command()(looking.report)
app.command()(sharing.export)
app.command()(sharing.demo)
app.command()(sharing.bench)


def run(arguments: list[str]) -> int:
    """Run the program and return its exit code.

    0: done. 2: a mistake in the call or in the data, with a remedy. 1: a fault of the program.
    130: interrupted.
    """
    # --debug is welcome after the command too.
    state["debug"] = "--debug" in arguments
    arguments = [a for a in arguments if a != "--debug"]
    if not state["debug"]:
        warnings.showwarning = _show_warning
    try:
        code = app(arguments, standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except BrokenPipeError:  # the reader of a pipe, such as head, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (KeyboardInterrupt, typer.Abort):
        screen.say("oakgp: interrupted")
        return 130
    except typer.Exit as error:
        return int(error.exit_code)
    except Exception as error:
        return _failed(error)


def _failed(error: Exception) -> int:
    if state["debug"]:
        traceback.print_exc()
    text = error.format_message() if hasattr(error, "format_message") else str(error)
    text = " ".join(text.split()) or type(error).__name__
    mendable = hasattr(error, "exit_code") or isinstance(
        error, (ValueError, TypeError, OSError, ImportError, MemoryError)
    )
    if mendable:
        screen.say(f"oakgp: error: {text}")
        return 2
    screen.say(f"oakgp: fault: {type(error).__name__}: {text}; --debug shows where it happened")
    return 1


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    screen.say(f"oakgp: warning: {' '.join(str(message).split())}")
