"""Entry point of the command ``warpdrive``: runs a subcommand, and reports its errors.

Each command's module is loaded when the command runs.

Exit codes: 0; 1 for findings of ``check`` and for a bug in WarpDrive, which the message says; 2 for an error of the
user, one line on stderr (a traceback with ``--debug``); 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP
(``runtime/interrupts.py``); 141 if the reader of a pipe is gone (``| head``). All output passes ``terminal.plain``,
which shows names as text whatever they contain.
"""

from __future__ import annotations

import argparse
import errno
import gc
import io
import os
import re
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module

from warpdrive.errors import ConfigError, WarpDriveError, one_line
from warpdrive.garbage_collection import no_garbage_collection
from warpdrive.terminal import plain, set_quiet
from warpdrive.training.cli.completion import COMPLETE, complete
from warpdrive.training.cli.parser import MISTAKE, build_parser, parse
from warpdrive.user_code import place_of_error

_CPU_ALLOCATOR = "DefaultCPUAllocator"
UNEXPECTED, INTERRUPTED, BROKEN_PIPE = 1, 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    It is 0 for success; 2 for a user error; 1 for findings of ``check``, and for a bug in this package; 130 after
    Ctrl-C, 143 after SIGTERM; 141 for a closed pipe, as after ``| head``.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by `>&-`, or of a program without a console on Windows
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == [COMPLETE]:  # of the scripts of `warpdrive completion`
        return complete(given[1], given[2:], build_parser())
    options = parse(given)
    _set_level(options)
    # Threads that wait for each other by spinning slow a run down several times where other programs need the cores.
    # It is read once, when PyTorch is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if arguments is None:
        if isinstance(sys.stdout, io.TextIOWrapper):  # names may not be in the encoding of a pipe, on Windows
            sys.stdout.reconfigure(errors="backslashreplace")
        warnings.formatwarning = lambda message, *_, **__: f"warpdrive {options.command}: {plain(str(message))}\n"
    try:
        check_machine()
        with no_garbage_collection():  # it would visit the objects of all modules several times
            command = import_module(f"warpdrive.training.cli.{options.command}")
            if arguments is None:  # the process runs this command only: imported objects stay alive
                gc.freeze()
        code: int = command.run(options)
        sys.stdout.flush()
    except Exception as error:
        if _is_broken_pipe(error):  # of `| head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # discard remaining output
            return BROKEN_PIPE
        if options.debug:
            raise
        print(plain(f"warpdrive {options.command}: {_in_words(error)}"), file=sys.stderr)
        return MISTAKE if _is_mistake(error) or place_of_error(error) else UNEXPECTED
    except KeyboardInterrupt as error:
        if options.debug:
            raise
        number = getattr(error, "number", None)  # of a signal that is not Ctrl-C
        by = f" by {number.name}" if number else ""
        print(f"\nwarpdrive {options.command}: interrupted{by}", file=sys.stderr)
        return INTERRUPTED if number is None else 128 + int(number)
    return code


def _set_level(options: argparse.Namespace) -> None:
    """Apply --quiet and --verbose, where a command has them."""
    set_quiet(getattr(options, "quiet", False))
    if getattr(options, "verbose", False):
        import logging

        logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
        logging.getLogger("warpdrive").setLevel(logging.INFO)


def _is_broken_pipe(error: Exception) -> bool:
    """Return True if the reader of a pipe is gone, which Windows reports as an invalid argument, without a file."""
    if not isinstance(error, OSError) or error.filename is not None:
        return False
    return isinstance(error, BrokenPipeError) or (os.name == "nt" and error.errno == errno.EINVAL)


def _is_mistake(error: Exception) -> bool:
    return isinstance(error, (WarpDriveError, OSError)) or _is_lack_of_memory(error)


def _is_lack_of_memory(error: Exception) -> bool:
    """Return True if an allocation failed: of Python, NumPy, or PyTorch, which has no exception class for the CPU."""
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or _CPU_ALLOCATOR in str(error)


def _in_words(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:  # no such folder, no permission, no space
        return f"{one_line(str(error.filename))}: {error.strerror}" if error.filename else error.strerror
    if _is_lack_of_memory(error):
        size = re.search(r"(\d+) bytes", str(error))
        what = f"allocating {int(size[1]) / 2**30:.1f} GiB" if size else one_line(str(error), 100)
        return f"out of memory ({what}): use fewer replicas, shorter rollouts, or smaller models and buffers"
    if _is_mistake(error):
        return str(error)
    if place := place_of_error(error):
        return f"{type(error).__name__}: {one_line(str(error))} ({place}); --debug shows the traceback"
    return (
        f"unexpected {type(error).__name__}: {one_line(str(error))}; this is a bug in WarpDrive: "
        "please report it with the output of --debug"
    )


def check_machine() -> None:
    """Raise ``ConfigError`` if no command can run in this environment."""
    try:
        os.getcwd()
    except FileNotFoundError:
        raise ConfigError("the working directory no longer exists: change to another one") from None
