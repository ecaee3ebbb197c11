"""Show a store of runs in the browser."""

from __future__ import annotations

import os

import click

from assay.cli import options, output
from assay.cli.commands import Command
from assay.cli.settings import option
from assay.web.server import TOKEN_VARIABLE, serve


@click.command("serve", cls=Command)
@options.store_option
@option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Address to listen on; non-loopback requires a token.",
)
@option(
    "-p",
    "--port",
    type=click.IntRange(0, 65535),
    default=8420,
    show_default=True,
    metavar="N",
    help="Port; 0 for any free one.",
)
@option(
    "--allow-host",
    "allowed",
    multiple=True,
    metavar="NAME",
    help="Another host name that requests may have. May be repeated.",
)
@option("--allow-edit", is_flag=True, help="Allow editing tags and notes (requires a token).")
@option("--open", "open_wanted", is_flag=True, help="Open the page in a browser.")
def command(
    *,
    store: str | None,
    host: str,
    port: int,
    allowed: tuple[str, ...],
    allow_edit: bool,
    open_wanted: bool,
) -> None:
    """Show a store of runs in the browser.

    Shows runs, leaderboards, comparisons, queries and trends. Pages are read-only unless
    --allow-edit is set. The server listens on this machine only; with --host, others need the
    token in the printed address or in ASSAY_TOKEN. Stop it with Ctrl-C.

    \b
    Examples:
      assay serve # stays up
      assay serve --store results.db --port 0 --open # stays up
      assay serve --host 0.0.0.0 # stays up
    """

    def ready(address: str) -> None:
        print(address, flush=True)
        output.log("serving until Ctrl-C")
        if open_wanted:
            import webbrowser
            from threading import Thread

            # Some browsers return only when they are closed.
            Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    serve(
        store,
        host=host,
        port=port,
        allowed=allowed,
        token=os.environ.get(TOKEN_VARIABLE),
        allow_edit=allow_edit,
        ready=ready,
    )
