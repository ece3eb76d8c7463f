"""The page of a run: who gets it, what it says, and a training watched from its start to its end."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import Opened, browser, opened  # noqa: F401 (fixtures)
from films import Painted, recording_of
from waiting import wait_until

import warpdrive as wd
from warpdrive import draw
from warpdrive.errors import ConfigError, WarpDriveError
from warpdrive.file_lock import locked
from warpdrive.training.checkpoint.run_folder import RunFolder
from warpdrive.training.cli.main import main
from warpdrive.training.replay.animation import Animation
from warpdrive.training.replay.film import Film
from warpdrive.training.run.metrics import MetricsLog
from warpdrive.training.trainer import Trainer
from warpdrive.training.watch import beside, curves as curves_module, episodes
from warpdrive.training.watch.beside import TOKEN, WatchedTraining
from warpdrive.training.watch.curves import Curves
from warpdrive.training.watch.episodes import Episode, Episodes
from warpdrive.training.watch.recorder import Recorder
from warpdrive.training.watch.server import WatchedRun, WatchServer
from warpdrive.training.watch.status import state_of

LONGEST = 120.0  # seconds until a test fails
CONFIG = "policy: {one: {}, two: {}}\ntrainer: {total_steps: 1000, train_batch_size: 10}\n"


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "game" / "first")
    folder.path.mkdir(parents=True)
    folder.config.write_text(CONFIG)
    return folder


@pytest.fixture
def server(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> Iterator[WatchServer]:
    monkeypatch.setattr(Episodes, "look", lambda self: None)  # nothing is recorded
    with WatchServer(run, token="the-token") as started:
        threading.Thread(target=started.serve_forever, args=(0.01,), daemon=True).start()
        yield started
        started.shutdown()


def get(port: int, path: str, host: str | None = "127.0.0.1:1") -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.putrequest("GET", path, skip_host=True)
    if host is not None:
        connection.putheader("Host", host)
    connection.endheaders()
    return connection.getresponse()


def state_at(port: int, query: str = "", token: str = "the-token") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(get(port, f"/{token}/state{query}").read())
    return found


@pytest.mark.parametrize("host", ["127.0.0.1:8300", "localhost:1", "127.0.0.1"])  # without a number: port 80
@pytest.mark.parametrize(("place", "kind"), [("", "text/html"), ("state", "application/json")])
def test_the_token_opens_the_page(server: WatchServer, place: str, kind: str, host: str) -> None:
    response = get(server.server_port, f"/the-token/{place}", host)
    assert (response.status, response.headers.get_content_type()) == (200, kind)
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    assert response.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    ("path", "host", "status"),
    [
        ("/", "localhost:1", 404),
        ("/the-toke/", "localhost:1", 404),
        ("/state", "localhost:1", 404),
        ("/the-token/config.yaml", "localhost:1", 404),
        ("/the-token/../config.yaml", "localhost:1", 404),
        ("/the-token/episode/1", "localhost:1", 404),
        ("/the-token/episode/../../config.yaml", "localhost:1", 404),
        ("/the-token/", "rebound.example.org:8300", 403),
        ("/the-token/state", "localhost.example.org:1", 403),
        ("/the-token/state", None, 403),
    ],
)
def test_all_else_is_refused_without_details(server: WatchServer, path: str, host: str | None, status: int) -> None:
    response = get(server.server_port, path, host)
    assert response.status == status
    assert response.read() in (b"not found\n", b"forbidden\n")


def test_only_the_loopback_interface_is_served(server: WatchServer) -> None:
    assert server.socket.getsockname()[0] == "127.0.0.1"
    with pytest.raises(ConfigError, match=rf"port {server.server_port}: .*in use; without a port, the first free one"):
        WatchServer(port=server.server_port)
    with WatchServer() as other:
        assert other.server_port > server.server_port
        assert other.token not in ("", server.token)


def test_the_tunnel_reaches_the_same_address(server: WatchServer, monkeypatch: pytest.MonkeyPatch) -> None:
    port = server.server_port
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.2 50000 10.0.0.1 2222")
    assert server.tunnel.startswith(f"ssh -p 2222 -L {port}:127.0.0.1:{port} ")
    assert server.tunnel.endswith(f"@{socket.gethostname()}")


def test_an_episode_is_isolated_from_the_page(server: WatchServer) -> None:
    assert server.run is not None
    server.run.episodes.latest = Episode(3, {"env_steps": 40, "seconds": 1.0}, "<p>the episode</p>")
    assert state_at(server.server_port)["episode"] == {"number": 3, "env_steps": 40, "seconds": 1.0}
    response = get(server.server_port, "/the-token/episode/3")
    assert response.headers["Content-Security-Policy"].startswith("sandbox allow-scripts; default-src 'none'")
    assert response.read().startswith(b"<p>the episode</p>")


# --- curves ---


def test_a_page_gets_only_what_is_new(server: WatchServer, run: RunFolder) -> None:
    with MetricsLog(run.metrics) as log:
        log.write(10, {"charts/episodic_return/one": 1.5, "perf/env_steps_per_second": 100.0})
        log.write(20, {"charts/episodic_return/one": float("nan"), "perf/env_steps_per_second": 50.0})
        first = state_at(server.server_port)
        assert first["curves"]["rows"] == [[1.5, 100.0], [None, 50.0]]
        assert first["curves"]["env_steps"] == [10, 20]
        assert (first["run"], first["tags"], first["total_steps"]) == ("game/first", ["one", "two"], 1000)
        generation = first["curves"]["generation"]
        log.write(30, {"charts/episodic_return/one": 3.0, "perf/env_steps_per_second": 50.0})
        second = state_at(server.server_port, f"?generation={generation}&rows=2")["curves"]
        assert (second["first"], second["rows"]) == (2, [[3.0, 50.0]])
        log.write(40, {"losses/entropy/one": 1.0})  # a new column: the file is written again
        third = state_at(server.server_port, f"?generation={generation}&rows=3")["curves"]
        assert (third["first"], len(third["rows"])) == (0, 4) and third["generation"] != generation


@pytest.mark.parametrize(("total_steps", "left"), [("1000", 16.0), ("9.0e+18", None), (".inf", None)])
def test_the_remaining_time_of_an_endless_run_is_unknown(
    server: WatchServer, run: RunFolder, total_steps: str, left: float | None
) -> None:
    run.config.write_text(CONFIG.replace("1000", total_steps))
    run.metrics.write_text("env_steps,perf/env_steps_per_second\n200,50\n")
    with locked(run.path):
        found = state_at(server.server_port)
    assert (found["state"], found["seconds_left"]) == ("running", left)


def test_a_half_written_line_waits_for_its_end(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    curves = Curves(path)
    curves.refresh()
    seen = []
    for part in ("env_ste", "ps,a\r\n10,", "1\r\n20", ",2\r\n30,", "3\r\n"):
        with path.open("a", newline="") as file:
            file.write(part)
        curves.refresh()
        seen.append(list(curves.rows))
    assert seen == [[], [], [[10, 1]], [[10, 1], [20, 2]], [[10, 1], [20, 2], [30, 3]]]


@pytest.mark.parametrize("text", ["env_steps,a\r\n10,1\r\n", "env_steps,a\r\n10,1\r\n25,7\r\n30,3\r\n40,4\r\n"])
def test_a_file_that_was_replaced_is_read_again(tmp_path: Path, text: str) -> None:
    """Of a resumed run it is shorter; after an evaluation beside training, an earlier row differs."""
    path = tmp_path / "metrics.csv"
    path.write_text("env_steps,a\r\n10,1\r\n20,2\r\n30,3\r\n")
    curves = Curves(path)
    curves.refresh()
    generation = curves.generation
    (tmp_path / "new").write_text(text)
    os.replace(tmp_path / "new", path)
    curves.refresh()
    assert curves.rows == [[float(cell) for cell in line.split(",")] for line in text.split()[1:]]
    assert curves.generation != generation


def test_long_runs_become_means_of_neighbours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves_module, "MAX_POINTS", 8)
    values = np.random.default_rng(0).normal(size=64)
    path = tmp_path / "metrics.csv"
    curves = Curves(path)
    with MetricsLog(path) as log:
        for index, value in enumerate(values):
            log.write(index + 1, {"a": float(value)})
            if index % 5 == 0:
                curves.refresh()
    curves.refresh()
    expected = values.reshape(8, 8).mean(1)
    np.testing.assert_allclose(np.array(curves.rows)[:, 1], expected)
    assert [row[0] for row in curves.rows] == list(range(8, 65, 8))
    assert curves.newest == {"env_steps": 64, "a": values[-1]}


def test_a_run_of_others_has_a_page(run: RunFolder) -> None:
    run.metrics.write_text(f"steps,a\n1,2\n2,3\n3,{'4' * 200_000}\n")
    run.config.write_text(f"trainer: {{total_steps: {'9' * 400}, train_batch_size: 1}}\npolicy: {{a: {{}}}}\n")
    watched = WatchedRun(run, trust=False)
    watched.curves.refresh()
    state = watched._state(0, 0)
    assert state["env_steps"] == 2 and state["curves"]["rows"] == [[2], [3]] and "total_steps" not in state


# --- states of a run ---


@pytest.mark.parametrize(
    ("seconds_ago", "in_progress", "summary", "expected"),
    [
        (0, True, None, ("running", "")),
        (0, True, "broken", ("running", "")),
        (70, True, None, ("running", "")),  # an update takes 10 seconds
        (1000, True, None, ("stalled", "no update was logged for 1000 seconds")),
        (1000, False, None, ("ended", "its process is gone and wrote no summary")),
        (0, False, {"status": "failed", "message": "NaN"}, ("ended", "failed: NaN")),
        (1000, False, {"status": "finished", "message": ""}, ("ended", "finished")),
    ],
)
def test_the_state_of_a_run(
    run: RunFolder, seconds_ago: int, in_progress: bool, summary: Any, expected: tuple[str, str]
) -> None:
    run.metrics.write_text("env_steps,perf/env_steps_per_second\n100,10\n200,10\n")
    for path in (run.config, run.metrics):
        os.utime(path, (time.time() - seconds_ago,) * 2)
    if summary is not None:
        run.summary.write_text(summary if isinstance(summary, str) else json.dumps(summary))
    curves = Curves(run.metrics)
    curves.refresh()
    if in_progress:
        with locked(run.path):
            assert state_of(run, curves) == expected
    else:
        assert state_of(run, curves) == expected


# --- the page in a browser ---


def test_the_page_follows_the_training(
    server: WatchServer,
    run: RunFolder,
    opened: Opened,  # noqa: F811
) -> None:
    """Its state, its curves, and its episodes, unless the user plays with the one that is shown.

    The page forbids the evaluation of strings that Playwright's ``wait_for_function`` needs.
    """

    def record(number: int) -> None:
        page = Animation([Film(Painted(), recording_of([draw.RED] * 4))], max_frames=4).html()
        about = {"env_steps": 10 * number, "length": 3, "returns": {"one": 1.5, "two": -number}, "seconds": 0.0}
        server.run.episodes.note = ""  # type: ignore[union-attr]
        server.run.episodes.latest = Episode(number, about, page)  # type: ignore[union-attr]
        browser_page.evaluate("look()")

    with locked(run.path), MetricsLog(run.metrics) as log:
        for step in range(1, 11):
            returns = {f"charts/episodic_return/{tag}": float(step % 3) for tag in ("one", "two")}
            log.write(10 * step, {**returns, "losses/entropy/one": 0.5, "perf/env_steps_per_second": 50.0})
        server.run.episodes.note = "waiting for the first weights"  # type: ignore[union-attr]
        browser_page = opened(server.address, width=390)
        find = browser_page.locator
        browser_page.wait_for_selector("text=100 of 1k steps")
        assert "update 10 \u00b7 50 steps per second \u00b7 18 s left" in find("#facts").inner_text()
        assert (find("#state").inner_text(), find("#empty").inner_text()) == (
            "running",
            "waiting for the first weights",
        )
        chart = find(".chart").first
        assert chart.locator("h2").inner_text() == "episodic return"
        assert chart.locator(".legend").inner_text().split() == ["one", "1", "two", "1"]
        assert find(".chart").count() == 2
        find("text=losses/entropy").click()
        assert find(".chart").count() == 3
        assert chart.locator("path.raw").count() == 0
        find("text=smooth").click()
        assert chart.locator("path.raw").count() == 2
        record(1)
        browser_page.frame_locator("iframe").locator("canvas").first.wait_for()
        assert find("#about").inner_text() == "policy after 10 steps \u00b7 3 steps \u00b7 return one 1.5, two \u22121"
        record(2)
        browser_page.wait_for_selector("iframe[src='episode/2']:only-child")
        browser_page.frame_locator("iframe").locator("#play").click()
        wait_until(lambda: browser_page.evaluate("touched"))
        record(3)
        assert find("iframe").get_attribute("src") == "episode/2"
        find("text=newer episode available: policy after 30 steps").click()
        browser_page.wait_for_selector("iframe[src='episode/3']:only-child")
        assert not find("#newer").is_visible()
        assert browser_page.evaluate("document.documentElement.scrollWidth") <= 390
        inside = browser_page.frames[1].evaluate
        wait_until(lambda: browser_page.evaluate("frame.clientHeight") >= inside("document.body.scrollHeight"))
    run.summary.write_text(json.dumps({"status": "finished", "message": ""}))
    browser_page.evaluate("look()")
    assert (find("#state").inner_text(), find("#message").inner_text()) == ("ended", "finished")


# --- trainings ---


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Viewer(threading.Thread):
    """Page in a browser: asks for the state until it is as wanted."""

    def __init__(self, port: int, wanted: Callable[[dict[str, Any]], object]) -> None:
        super().__init__()
        self.port, self.wanted, self.state = port, wanted, dict[str, Any]()
        self.start()

    def run(self) -> None:
        until = time.monotonic() + LONGEST
        while time.monotonic() < until and not self.wanted(self.state):
            time.sleep(0.1)
            with suppress(OSError):  # the server is not there yet
                self.state = state_at(self.port)


def test_a_training_is_watched_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until Ctrl-C, which ends the server as well."""
    port = free_port()
    monkeypatch.setenv(TOKEN, "the-token")
    monkeypatch.chdir(tmp_path)
    viewer = Viewer(port, lambda state: state.get("curves", {}).get("rows"))
    interrupt = threading.Thread(target=lambda: (viewer.join(), os.kill(os.getpid(), signal.SIGINT)))
    interrupt.start()
    sizes = ["trainer.num_envs=8", "trainer.train_batch_size=80", "trainer.total_steps=1e9", "saving.tensorboard=false"]
    assert main(["train", "cartpole", "--watch", "--watch-port", str(port), *sizes]) == 130
    interrupt.join()
    assert (viewer.state["state"], viewer.state["tags"]) == ("running", ["agent"])
    with pytest.raises(ConnectionRefusedError):
        get(port, "/the-token/")


def test_a_training_answers_requests_for_its_policy(trainer_of: Any, sections: Any) -> None:
    """Between its checkpoints; what it wrote is removed at the end."""
    config = sections("Echo", ("agent",), total_steps=10**9) | {"env": {"name": "cartpole"}}
    trainer = trainer_of(config, "saving.checkpoint_every=1000000000")
    answers: list[dict[str, Any]] = []

    class Look(wd.Callback):
        def on_start(self, trainer: Trainer, run_folder: Path) -> None:
            self.recorder = Recorder(run_folder, trust=False)

        def on_update(self, trainer: Trainer, report: object) -> None:
            answers.append(self.recorder.next())
            if "page" in answers[-1]:
                raise KeyboardInterrupt
            time.sleep(0.02)

    summary = trainer.train(callbacks=[Look()], progress=False)
    assert answers[0] == {"note": "waiting for the first weights"}
    episode = answers[-1]["episode"]
    assert 0 < episode["env_steps"] < summary.env_steps
    assert episode["length"] == episode["returns"]["agent"] > 0
    assert "<canvas" in answers[-1]["page"]
    assert not (summary.run_folder / "present_policy").exists()


@pytest.mark.parametrize(
    ("answers", "note", "number"),
    [
        ([{"note": "waiting"}], "waiting", None),
        ([{"note": "waiting"}, {"page": "<p>", "episode": {}, "cpu_seconds": 0}], "", 1),
        ([{"page": "<p>", "episode": {}, "cpu_seconds": 0}, {"error": "cannot"}], "cannot", 1),
        ([], "the process that records episodes has ended with exit code 3", None),
    ],
)
def test_answers_of_the_recording_process(
    answers: list[dict[str, Any]], note: str, number: int | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(episodes, "_BETWEEN_TRIES", 0.01)
    monkeypatch.setattr(episodes, "_LEAST", 0.01)
    program = "for answer in sys.argv[1:]: input(); print(answer, flush=True)"
    program = f"import sys\n{program}\nif len(sys.argv) == 1: sys.exit(3)\nsys.stdin.read()"
    shown = Episodes(tmp_path, trust=False)
    shown._command = [sys.executable, "-c", program, *map(json.dumps, answers)]
    shown.look()
    until = time.monotonic() + LONGEST
    while (shown.note, shown.latest and shown.latest.number) != (note, number) and time.monotonic() < until:
        time.sleep(0.01)
    shown.close()
    assert (shown.note, shown.latest and shown.latest.number) == (note, number)
    assert shown._process is not None and shown._process.returncode is not None


def test_episodes_are_those_of_the_trained_policy(tmp_path: Path, trainer_of: Any, sections: Any) -> None:
    """Of any environment; one that cannot be drawn has curves only, and says so."""
    config = sections("Echo", reset_pool_size=1)
    trainer = trainer_of(config)
    run = RunFolder(trainer.train(progress=False).run_folder)
    recorder = Recorder(run.path, trust=False)
    newest = run.checkpoints / "step_600"
    for number in range(2):
        recording = recorder.record(newest)
        expected = trainer.fetch_episode(seed=number)
        np.testing.assert_array_equal(recording.actions, expected.actions)
    with pytest.raises(WarpDriveError, match="cannot be rendered"):
        recorder.next()


def test_a_port_in_use_is_an_error_of_the_training(server: WatchServer, capsys: pytest.CaptureFixture[str]) -> None:
    error = pytest.raises(ConfigError, match=f"--watch: port {server.server_port}")
    with WatchedTraining(server.server_port) as watched, error:
        watched.directions()
    assert main(["watch", "no_such_run"]) == 2
    assert "neither a run folder" in capsys.readouterr().err


def test_a_server_that_does_not_start_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(20)"]
    monkeypatch.setattr(beside, "module_command", lambda module: command)
    monkeypatch.setattr(beside, "_SECONDS_TO_START", 0.1)
    with pytest.raises(ConfigError, match=r"did not start within 0.1 seconds"), WatchedTraining() as watched:
        watched.directions()
