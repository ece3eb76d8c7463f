"""``python -m warpdrive.training.watch``: server of a run that is about to be trained, see ``beside.py``.

Arguments are a port, or 0 for any, and ``--trust``. It prints a line of JSON with the directions to its page, or with
an error, then reads the path of the run, as JSON, from stdin; it ends with its stdin.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path

from warpdrive.errors import ConfigError
from warpdrive.training.checkpoint.run_folder import RunFolder
from warpdrive.training.watch.beside import TOKEN
from warpdrive.training.watch.server import WatchServer


def _follow(server: WatchServer) -> None:
    for line in sys.stdin:
        server.show(RunFolder(Path(json.loads(line))))
    server.shutdown()


def main() -> None:
    """Serve until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the training, which ends this process
    try:
        server = WatchServer(None, int(sys.argv[1]) or None, "--trust" in sys.argv[2:], os.environ.get(TOKEN))
    except ConfigError as error:
        print(json.dumps({"error": str(error)}))
        return
    with server:
        print(json.dumps({"directions": server.directions}), flush=True)
        threading.Thread(target=_follow, args=(server,), daemon=True).start()
        server.serve_forever()


if __name__ == "__main__":
    main()
