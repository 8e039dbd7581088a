"""The examples of docs/howto/extend.md run as they are shown: one file each, outside the package."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import ksame
from ksame.core.partition_type import check_law
from pages import ROOT, blocks

PAGE = ROOT / "docs" / "howto" / "extend.md"


class Example:
    """A file that the page shows, and the command that is shown after it."""

    def __init__(self, source: str, command: str) -> None:
        self.name = re.match(r"# (\w+)\.py\n", source)[1]
        self.source = source
        script, *self.arguments = shlex.split(command.strip().removeprefix("$ python "))
        assert script == f"{self.name}.py"

    def run(self, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run the command in a folder with photos/ in it."""
        (folder / f"{self.name}.py").write_text(self.source)
        return subprocess.run(
            [sys.executable, f"{self.name}.py", *self.arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=300,
        )


EXAMPLES = [
    Example(block.text, after.text)
    for block, after in pairwise(blocks(PAGE))
    if block.language == "python" and after.language == "console"
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, people):
    """Return a folder that has what the commands name: photos/, and in the end release/."""
    folder = tmp_path_factory.mktemp("extend")
    (folder / "photos").symlink_to(people)
    return folder


def test_every_example_has_a_command():
    assert sum(block.language == "python" for block in blocks(PAGE)) == len(EXAMPLES) == 5


@pytest.mark.weights
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_example_runs(example, folder):
    done = example.run(folder)
    assert done.returncode == 0, done.stderr
    if "run" in example.arguments:
        out = folder / example.arguments[example.arguments.index("-o") + 1]
        options = ksame.verify(out, private=out.with_name(f"{out.name}.private")).certificate["method"]
        assert str(options[example.arguments[-2].removeprefix("--")]) == example.arguments[-1]
    else:
        assert done.stdout or done.stderr


def test_the_partition_keeps_the_law():
    example = next(one for one in EXAMPLES if "--partition" in one.arguments)
    names: dict[str, object] = {"__name__": example.name}
    exec(example.source, names)
    partition = names[example.name]
    rng = np.random.default_rng(0)
    for k in (2, 3, 5):
        for n in range(k, 5 * k):
            groups = partition(rng.normal(size=(n, 4)), k)
            assert len(groups) == n // k
            assert check_law(groups.labels, np.arange(n), k) == groups.bound
