"""Run the command in a process of its own, and compare the contents of folders."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple


class Outcome(NamedTuple):
    """Exit code, stdout and stderr of one run of the command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The object that ``--json`` printed; nothing else may be on stdout."""
        return json.loads(self.out)

    @property
    def sentence(self) -> str:
        """The error message, which must be one sentence on one line."""
        (line,) = [line for line in self.err.splitlines() if line.startswith("ksame: ")]
        assert line.endswith("."), line
        assert "Traceback" not in self.err
        return line.removeprefix("ksame: ")


def begin(*args: object, start: str = "", **options: Any) -> subprocess.Popen[Any]:
    """Start the real command in a process of its own, after the Python statements of ``start``.

    A process inherits an ignored SIGINT from its parent (a shell's background job, cron) and rightly goes on
    ignoring it. The tests must not depend on who started them, so the child gets Python's own handler.
    """
    before = f"import signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n{start}\n"
    code = f"{before}sys.argv[0] = 'ksame'\nfrom ksame.cli import main\nmain()"
    return subprocess.Popen([sys.executable, "-c", code, *map(str, args)], **options)


def shell(*args: object, start: str = "", **options: Any) -> Outcome:
    """Run the real command as ``begin`` does, wait for its end and return what it printed."""
    piped = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    with begin(*args, start=start, **piped, **options) as process:
        try:
            streams = process.communicate(timeout=300)
        except BaseException:
            process.kill()
            raise
    # bytes that are not UTF-8 must not break the tests either
    return Outcome(process.returncode, *map(os.fsdecode, streams))


# ``die`` ends the process as kill -9 does, at an exact point of the code
KILL = "import os, signal\ndie = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)\n"


def places(folder: Path) -> dict[str, str]:
    """Return an environment whose temporary folder is ``folder / "temp"``, where tests can look for files."""
    (folder / "temp").mkdir()
    return os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder / "temp"))


def tree(folder: Path) -> set[str]:
    """Return the relative names of everything below a folder."""
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def digests(folder: Path) -> dict[str, str]:
    """Return the sha256 of every file below a folder, by relative name."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }
