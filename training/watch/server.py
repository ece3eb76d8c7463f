"""HTTP server of one run on the loopback interface: a page, the state of the run, and its latest episode.

Requests without the token in the address are rejected. Addresses must name the loopback interface, so that pages of
other sites cannot reach the server by their own host names (DNS rebinding).
"""

from __future__ import annotations

import getpass
import json
import math
import os
import secrets
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from warpdrive.errors import ConfigError
from warpdrive.training.checkpoint.run_folder import RunFolder
from warpdrive.training.reports import A_YEAR
from warpdrive.training.watch.curves import Curves
from warpdrive.training.watch.episodes import Episodes
from warpdrive.training.watch.status import settings_of, state_of

HOST = "127.0.0.1"
FIRST_PORT, PORTS = 8300, 100
_HOST_NAMES = (HOST, "localhost")
_PAGE = Path(__file__).with_name("page.html")
_NOTHING_ELSE = "default-src 'none'; base-uri 'none'; form-action 'none'; "
_EPISODE_POLICY = (
    "sandbox allow-scripts; " + _NOTHING_ELSE + "script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; connect-src data: blob:; worker-src blob:"
)
_NOTICE_TOUCH = """<script>
const tellTouch = event => { if (event.isTrusted) parent.postMessage("touched", "*"); };
for (const kind of ["pointerdown", "keydown", "wheel"])
  addEventListener(kind, tellTouch, {capture: true, passive: true});
new ResizeObserver(() => parent.postMessage(document.body.offsetHeight, "*")).observe(document.body);
</script>
"""
"""Added to the page of an episode: tells the page around it that the user plays with it, and its height."""


class WatchServer(ThreadingHTTPServer):
    """Server of the page of a run.

    Args:
        run: Folder of the run; None: not known yet, see :meth:`show`.
        port: Port; None: the first free one from 8300.
        trust: See :func:`warpdrive.training.replay.replay.replay`.
        token: Secret part of the address; None: a random one.

    Raises:
        ConfigError: If the port is in use, or cannot be used.
    """

    allow_reuse_address = os.name != "nt"  # where it would allow to take over a port that is in use
    daemon_threads = True

    def __init__(
        self, run: RunFolder | None = None, port: int | None = None, trust: bool = False, token: str | None = None
    ) -> None:
        self.token, self.trust = token or secrets.token_urlsafe(16), trust
        self.run: WatchedRun | None = None
        for number in range(FIRST_PORT, FIRST_PORT + PORTS) if port is None else (port,):
            try:
                super().__init__((HOST, number), _Handler)
                break
            except OSError as error:
                reason = error.strerror
        else:
            if port is None:
                raise ConfigError(
                    f"the ports {FIRST_PORT} to {FIRST_PORT + PORTS - 1} are in use: choose one, --port N"
                )
            raise ConfigError(f"port {port}: {reason}; without a port, the first free one from {FIRST_PORT} is used")
        if run is not None:
            self.show(run)

    def show(self, run: RunFolder) -> None:
        """Serve a run."""
        self.run = WatchedRun(run, self.trust)

    def server_close(self) -> None:
        """Stop serving, and end the process that records episodes."""
        super().server_close()
        if self.run is not None:
            self.run.episodes.close()

    @property
    def address(self) -> str:
        """Address of the page, with the token."""
        return f"http://{HOST}:{self.server_port}/{self.token}/"

    @property
    def tunnel(self) -> str:
        """Command that forwards the port to another machine, which then reaches the same address."""
        server_port = (os.environ.get("SSH_CONNECTION") or "").split()[3:]
        option = f"-p {server_port[0]} " if server_port not in ([], ["22"]) else ""
        try:
            user = getpass.getuser()
        except (OSError, KeyError):  # a user without a name, as in containers
            user = "user"
        forwarded = f"{self.server_port}:{HOST}:{self.server_port}"
        return f"ssh {option}-L {forwarded} {user}@{socket.gethostname()}"

    @property
    def directions(self) -> tuple[str, str]:
        """Two lines with the addresses of the page: from this machine, and from another one."""
        return f"watch this run: {self.address}", f"to reach it from another machine, run there: {self.tunnel}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do nothing: a browser may close a connection at any time."""


class WatchedRun:
    """State of a run for its page.

    Args:
        run: Folder of the run.
        trust: See :func:`warpdrive.training.replay.replay.replay`.
    """

    def __init__(self, run: RunFolder, trust: bool) -> None:
        self.run, self.curves, self.episodes = run, Curves(run.metrics), Episodes(run.path, trust)
        self._lock = threading.Lock()

    def state(self, generation: int, rows: int) -> dict[str, Any]:
        """Return the state of the run.

        Args:
            generation: Generation of the curves that the page has.
            rows: Number of their rows that it has.
        """
        self.episodes.look()
        with self._lock:
            self.curves.refresh()
            return self._state(generation, rows)

    def _state(self, generation: int, rows: int) -> dict[str, Any]:
        curves, settings = self.curves, settings_of(self.run)
        state, message = state_of(self.run, curves)
        known = rows if generation == curves.generation else 0
        speed, done = curves.newest.get("perf/env_steps_per_second"), curves.newest.get("env_steps", 0.0)
        left = (settings["total_steps"] - done) / speed if settings and speed else math.inf
        latest = self.episodes.latest
        values = [[None if value is None else float(f"{value:.6g}") for value in row] for row in curves.rows[known:]]
        return {
            "run": "/".join(self.run.path.resolve().parts[-2:]),
            "state": state,
            "message": message,
            "env_steps": done,
            "steps_per_second": speed,
            "seconds_left": left if state == "running" and left < A_YEAR else None,
            **settings,
            "curves": {
                "generation": curves.generation,
                "columns": curves.columns,
                "first": known,
                "env_steps": [row[0] for row in curves.rows[known:]],
                "rows": [row[1:] for row in values],
            },
            "episode": latest and {"number": latest.number, **latest.about},
            "note": self.episodes.note,
        }


class _Handler(BaseHTTPRequestHandler):
    server: WatchServer
    timeout = 30
    server_version, sys_version = "warpdrive", ""

    def do_GET(self) -> None:
        if not self._has_loopback_host():
            return self._send(403, b"forbidden\n", "text/plain", _NOTHING_ELSE)
        address = urlsplit(self.path)
        _, token, *place = address.path.split("/")
        if not secrets.compare_digest(token.encode(), self.server.token.encode()):
            return self._send(404, b"not found\n", "text/plain", _NOTHING_ELSE)
        if place == [""]:
            return self._send_page()
        if place == ["state"]:
            return self._send_state(parse_qs(address.query))
        if len(place) == 2 and place[0] == "episode":
            return self._send_episode(place[1])
        return self._send(404, b"not found\n", "text/plain", _NOTHING_ELSE)

    def _has_loopback_host(self) -> bool:
        names = self.headers.get_all("Host") or []
        return len(names) == 1 and names[0].partition(":")[0].lower() in _HOST_NAMES

    def _send_page(self) -> None:
        nonce = secrets.token_urlsafe(16)
        page = _PAGE.read_text(encoding="utf-8").replace("{{nonce}}", nonce)
        policy = f"script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src data:; connect-src 'self'; "
        self._send(200, page.encode(), "text/html", _NOTHING_ELSE + policy + "frame-src 'self'")

    def _send_state(self, query: dict[str, list[str]]) -> None:
        numbers = (query.get(name, ["0"])[0] for name in ("generation", "rows"))
        known = [int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0 for text in numbers]
        state = self.server.run.state(*known) if self.server.run else {"state": "starting"}
        self._send(200, json.dumps(state, separators=(",", ":")).encode(), "application/json", _NOTHING_ELSE)

    def _send_episode(self, number: str) -> None:
        latest = self.server.run.episodes.latest if self.server.run else None
        if latest is None or number != str(latest.number):
            return self._send(404, b"not found\n", "text/plain", _NOTHING_ELSE)
        self._send(200, (latest.page + _NOTICE_TOUCH).encode(), "text/html", _EPISODE_POLICY)

    def _send(self, code: int, content: bytes, kind: str, policy: str) -> None:
        self.send_response(code)
        for name, value in (
            ("Content-Type", f"{kind}; charset=utf-8"),
            ("Content-Length", str(len(content))),
            ("Content-Security-Policy", policy),
            ("Cache-Control", "no-store"),
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Do nothing: the terminal belongs to the training."""
