from __future__ import annotations

import io
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image

from ksame import io as ksame_io
from ksame.core.errors import InputError
from oracles import turned

pictures = hnp.arrays(np.uint8, st.tuples(st.integers(1, 24), st.integers(1, 24), st.just(3)))
parts = st.sampled_from(["a", "b", "B", "é", "_", "0"])
files = st.builds(
    "{}.{}".format,
    st.lists(parts, min_size=1, max_size=3).map("/".join),
    st.sampled_from(["png", "JPG", "txt"]),
)


def encoded(rgb: np.ndarray, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(rgb).save(buffer, kind, **options)
    return buffer.getvalue()


def read(data: bytes) -> np.ndarray:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        return ksame_io.read_photo(file.name)


@given(pictures)
def test_png_gives_back_every_pixel(rgb: np.ndarray) -> None:
    assert np.array_equal(read(ksame_io.encode_png(rgb)), rgb)


@given(pictures, pictures)
def test_bytes_are_equal_exactly_when_pixels_are(one: np.ndarray, other: np.ndarray) -> None:
    same = one.shape == other.shape and bool((one == other).all())
    assert (ksame_io.encode_png(one) == ksame_io.encode_png(other)) == same
    assert ksame_io.encode_png(one) == ksame_io.encode_png(one.copy())


@given(pictures, st.sampled_from([".png", ".jpg", ".webp"]))
def test_what_is_written_has_no_metadata(rgb: np.ndarray, suffix: str) -> None:
    assert ksame_io.metadata_of(ksame_io.encode(rgb, suffix)) == []


@given(pictures, st.integers(1, 8), st.sampled_from(["PNG", "TIFF", "WEBP"]))
def test_every_orientation_gives_the_upright_picture(rgb: np.ndarray, mark: int, kind: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = mark
    assert np.array_equal(read(encoded(turned(rgb, mark), kind, exif=exif, lossless=True)), rgb)


@given(st.sets(st.sampled_from([(40, 16), (16, 40), (24, 24)]), min_size=1), st.integers(1, 8))
def test_jpeg_stands_upright_also_as_a_preview(sizes: set[tuple[int, int]], mark: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = mark
    for height, width in sizes:
        quarter = np.full((height, width, 3), 30, np.uint8)
        quarter[: height // 2, : width // 2] = 220
        with tempfile.NamedTemporaryFile() as file:
            file.write(encoded(turned(quarter, mark), "JPEG", exif=exif))
            file.flush()
            for at_least in (8, 16):
                rgb, scale = ksame_io.read_preview(file.name, at_least=at_least)
                assert np.array_equal(rgb[::4, ::4] > 125, quarter[::scale, ::scale][::4, ::4] > 125)


@given(pictures, st.sampled_from(["PNG", "JPEG", "WEBP", "TIFF", "BMP", "PPM"]), st.data())
def test_a_damaged_file_is_a_picture_or_an_input_error(
    rgb: np.ndarray, kind: str, data: st.DataObject
) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    whole = bytearray(encoded(rgb, kind, **({} if kind in ("BMP", "PPM") else {"exif": exif})))
    for at in data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=8)):
        whole[at] = data.draw(st.integers(0, 255))
    damaged = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    for work in (read, ksame_io.metadata_of):
        try:
            result = work(damaged)
        except InputError as error:
            assert str(error).endswith(".")
        else:
            assert isinstance(result, list) or (result.ndim == 3 and result.dtype == np.uint8)


@given(st.sets(files, max_size=6), st.sets(files, max_size=6), st.booleans())
def test_find_is_deterministic_complete_and_unique(one: set[str], other: set[str], swap: bool) -> None:
    with tempfile.TemporaryDirectory() as here:
        roots = [Path(here, "one/x"), Path(here, "two/x")]
        for root, inside in zip(roots, (one, other), strict=True):
            root.mkdir(parents=True)
            for name in inside:
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).touch()
        found = ksame_io.find_photos(roots[::-1] if swap else roots)
        want = sorted(path for root in roots for path in root.rglob("*.*") if path.suffix != ".txt")
        assert found == ksame_io.find_photos([*roots, *want]) == sorted(found)
        assert sorted(photo.path for photo in found) == want
        assert len({photo.name for photo in found}) == len(want)
        assert not {photo.path for photo in found} & set(ksame_io.skipped_files(roots))
