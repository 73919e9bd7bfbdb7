"""Runs a program whose standard error is shown and kept."""
from __future__ import annotations

import fcntl
import os
import pty
import re
import subprocess
import termios
import threading

_MOST_BYTES = 1 << 16
_FEW_LINES = 10


def message_of(output: str) -> str:
    """Returns the error message in what the program wrote to standard error: from the first line of `tessera:` on that is
    not a warning, without the colors and status lines of a terminal. If there is no such line, the last lines."""
    output = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", output).replace("\r\n", "\n")
    lines = [line.rpartition("\r")[2] for line in output.split("\n")]
    for at, line in enumerate(lines):
        if line.startswith("tessera: ") and not line.startswith("tessera: warning: "):
            return "\n".join(lines[at:]).strip()
    return "\n".join([line for line in lines if line.strip()][-_FEW_LINES:])


def _open_relay() -> tuple[int, int]:
    """Returns the ends for reading and writing. If standard error is a terminal, the program gets one of the same size and
    settings, so that it shows its status line."""
    if not os.isatty(2):
        return os.pipe()
    reader, writer = pty.openpty()
    termios.tcsetattr(writer, termios.TCSANOW, termios.tcgetattr(2))
    fcntl.ioctl(writer, termios.TIOCSWINSZ, fcntl.ioctl(2, termios.TIOCGWINSZ, bytes(8)))
    return reader, writer


class _Relay(threading.Thread):
    """Copies all that arrives to standard error, and keeps the end of it."""

    def __init__(self, reader: int) -> None:
        super().__init__(daemon=True)
        self._reader = reader
        self.kept = b""

    def run(self) -> None:
        while True:
            try:
                piece = os.read(self._reader, _MOST_BYTES)
            except OSError:  # a terminal whose other end is closed
                break
            if not piece:
                break
            self.kept = (self.kept + piece)[-_MOST_BYTES:]
            try:
                while piece:
                    piece = piece[os.write(2, piece):]
            except OSError:  # standard error is closed or full: the program continues
                pass
        os.close(self._reader)


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Returns the exit code. Ctrl-C reaches the program, too, which then saves and ends: it is waited for
    before KeyboardInterrupt is raised again. A second Ctrl-C ends the program at once."""
    try:
        return process.wait()
    except KeyboardInterrupt:
        while process.poll() is None:
            try:
                process.wait()
            except KeyboardInterrupt:
                pass
        raise


def run_relayed(command: list[str]) -> tuple[int, str]:
    """Runs a command whose output is that of this process. Returns its exit code and its error message."""
    reader, writer = _open_relay()
    relay = _Relay(reader)
    try:
        process = subprocess.Popen(command, stderr=writer)
    finally:
        os.close(writer)
        relay.start()
    try:
        with process:
            code = _wait(process)
    finally:
        relay.join(timeout=10)  # a process that the program started can still hold the other end
    return code, message_of(relay.kept.decode(errors="replace"))
