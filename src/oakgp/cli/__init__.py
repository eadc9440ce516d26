"""The command line: ``oakgp fit``, ``predict``, ``explain``, ``report``, ``show`` and more."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; exit with 0, with 2 after a mistake that can be mended, else with 1."""
    try:
        import pyarrow  # noqa: F401
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError as error:
        sys.stderr.write(
            f"oakgp: error: the command line needs the package {error.name}: "
            'pip install "oakgp[cli]"\n'
        )
        raise SystemExit(1) from None
    from oakgp.cli.app import run

    raise SystemExit(run(sys.argv[1:]))
