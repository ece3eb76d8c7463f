"""``warpdrive watch``: a page with the curves of a run and episodes of its newest policy."""

from __future__ import annotations

import argparse
from contextlib import suppress

from warpdrive.training.checkpoint.run_folder import find_run
from warpdrive.training.cli.printing import note, say
from warpdrive.training.watch.server import WatchServer


def run(options: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C."""
    with WatchServer(find_run(options.run), options.port, options.trust) as server:
        address, tunnel = server.directions
        say(address)
        note(tunnel)
        note("Ctrl-C ends it")
        with suppress(KeyboardInterrupt):
            server.serve_forever()
    return 0
