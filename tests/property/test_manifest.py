"""SHA256SUMS lists every name, however odd, in the form that coreutils reads."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ksame.core.errors import GuaranteeViolated
from ksame.release import MANIFEST, read_manifest
from ksame.release.writer import manifest_text
from odd_names import ODD, names

hashes = st.binary(min_size=1).map(lambda data: hashlib.sha256(data).hexdigest())
odd = st.sampled_from([*ODD, "a\nb", "a\\nb", "\\", "\r", "a\\\nb", " b", "b ", "\x85", "\u2028"])
paths = st.lists(names | odd, min_size=1, max_size=3).map("/".join)
manifests = st.dictionaries(paths, hashes, max_size=6)


def read(data: bytes) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as here:
        Path(here, MANIFEST).write_bytes(data)
        return read_manifest(Path(here))


@given(manifests)
@example(dict.fromkeys(ODD, "0" * 64))
def test_what_is_written_is_read(listed):
    data = manifest_text(listed)
    assert read(data) == listed
    assert data.count(b"\n") == len(listed), "a line for each file, whatever its name"
    assert data == manifest_text(dict(reversed(listed.items()))), "in one order"


@given(manifests.filter(bool), st.data())
def test_a_line_that_is_not_a_files_is_refused(listed, data):
    lines = manifest_text(listed).splitlines(keepends=True)
    row = data.draw(st.integers(0, len(lines) - 1))
    broken = data.draw(st.sampled_from([b"\n", b"# note\n", b"0" * 64 + b"\n", b"0" * 63 + b"  x\n"]))
    with pytest.raises(GuaranteeViolated, match="a line is not that of a file"):
        read(b"".join([*lines[:row], broken, *lines[row:]]))


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="coreutils are not installed")
@settings(max_examples=15)
@given(st.dictionaries(names, st.binary(max_size=20), min_size=1, max_size=4))
@example(
    dict.fromkeys((name.replace("/", "") for name in ODD), b"") | {"a\nb": b"1", "a\\nb": b"2", "\\": b"3"}
)
def test_coreutils_check_it(contents):
    with tempfile.TemporaryDirectory() as here:
        folder = Path(here, "files")
        folder.mkdir()
        for name, content in contents.items():
            (folder / name).write_bytes(content)
        listed = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
        Path(here, MANIFEST).write_bytes(manifest_text(listed))

        def check() -> int:
            return subprocess.run(
                ["sha256sum", "--check", "--strict", "--quiet", Path(here, MANIFEST)],
                cwd=folder,
                capture_output=True,
            ).returncode

        assert check() == 0
        (folder / next(iter(contents))).write_bytes(b"another one, longer than those")
        assert check() == 1
