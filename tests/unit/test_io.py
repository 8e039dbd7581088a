from __future__ import annotations

import base64
import errno
import io
import os
import resource
import signal
import struct
import subprocess
import sys
import threading
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageCms, PngImagePlugin

from ksame import io as ksame_io
from ksame.core.errors import InputError, KSameError, UsageError

# 64 x 64, left half (200, 40, 40), right half (40, 40, 200); drawn and encoded for this test
HEIC = base64.b85decode(
    "0000SW^{RQXk}?*00000ZE0pPXk}?*ZE0a<00042ZDn*}000000000XXk=`10000000000aA{+700000000000000000000B57=IV*mgE"
    "07O6l0RRC200001dH?|c00000001Wd001LtX>Mi!000000RR916=`l}WdZ;I000310BCk&F#rGn01j|zbZr0t000010002iX>f9I0002D"
    "X>en20001ZXm(>m0RwOV0058x000009`FGC{rLC*01pFT0096PKmiN^|NjGU00093kN^M!000939=ZZRVE_RDD?$MQ18@KU0|1Z!00RI3"
    "0{|YNAb|yz>PacCZUPz%2mk;B0LTCU0{{p>VgLaE2SfqEa<C#m0000JV{dG7ZewhC0096E00w{n000zeb8uw<00000002M$002M$000nh"
    "X?SS>000032nYxO000+haBX1#00000000310R({p0|Wp7055H1VRQfh03#>?uNi>GfxKL|>c9WXhu`xI()Q0MfBvzd-#EH|xLN5Fzy<"
)


def names(*inputs: str | Path) -> list[str]:
    return [photo.name for photo in ksame_io.find_photos(inputs)]


def touch(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def same(got: np.ndarray, want: np.ndarray, tolerance: int = 0) -> bool:
    return got.shape == want.shape and bool((np.abs(got.astype(int) - want.astype(int)) <= tolerance).all())


def alike(got: np.ndarray, want: np.ndarray) -> bool:
    """Whether they differ by no more than lossy compression does; a wrong turn or colour is over 30."""
    return got.shape == want.shape and float(np.abs(got.astype(float) - want).mean()) < 5


# find


def test_find_searches_folders_to_the_bottom_and_sorts(tmp_path: Path) -> None:
    touch(*(tmp_path / name for name in ("z.JPG", "a/b/c.png", "a/x.tif", "a/readme.txt", "m.HEIC")))
    assert names(tmp_path) == ["a/b/c.png", "a/x.tif", "m.HEIC", "z.JPG"]
    assert ksame_io.skipped_files([tmp_path]) == [tmp_path / "a/readme.txt"]


def test_find_passes_over_hidden_files_and_our_own_outputs(tmp_path: Path) -> None:
    ours = (
        "out/certificate.json",
        "out/images/1.png",
        "out.private/2.png",
        "secret/mapping.csv",
        "secret/settings.json",
        "secret/3.png",
    )
    touch(*(tmp_path / name for name in (".h.png", ".d/4.png", "a.png", ".out.1.partial/5.png", *ours)))
    assert names(tmp_path) == ["a.png"]
    assert names(tmp_path / "out") == ["images/1.png"], "a folder that is asked for by name is searched"
    assert names(tmp_path / ".h.png") == [".h.png"]


def test_links_neither_loop_nor_duplicate(tmp_path: Path) -> None:
    touch(tmp_path / "d/a.png")
    (tmp_path / "d/up").symlink_to(tmp_path)
    (tmp_path / "e").symlink_to(tmp_path / "d")
    (tmp_path / "d/same.png").symlink_to(tmp_path / "d/a.png")
    (tmp_path / "self.png").symlink_to("self.png")
    (tmp_path / "gone.png").symlink_to("nowhere.png")
    assert names(tmp_path) == ["d/a.png", "gone.png", "self.png"], "broken links are for read to report"
    assert names(tmp_path, tmp_path / "d", tmp_path / "d/a.png", tmp_path / "d/up/e") == names(tmp_path)


def test_equal_names_are_told_apart_by_their_folder_then_by_a_counter(tmp_path: Path) -> None:
    touch(*(tmp_path / name for name in ("p/x/a.png", "q/x/a.png", "y/b.png", "x-2/c.png")))
    assert names(tmp_path / "p/x", tmp_path / "y") == ["a.png", "b.png"]
    both = [tmp_path / "p/x", tmp_path / "q/x", tmp_path / "y", tmp_path / "x-2"]
    assert names(*both) == ["x-2-2/c.png", "x-2/a.png", "x/a.png", "y/b.png"]
    assert ksame_io.find_photos(both) == ksame_io.find_photos(reversed(both))
    assert names(tmp_path / "p/x/a.png", tmp_path / "q/x/a.png") == ["x-2/a.png", "x/a.png"]


def test_names_that_are_not_utf8_survive(tmp_path: Path, scene: np.ndarray) -> None:
    raw = os.fsencode(tmp_path) + b"/\xff\xfe\n.png"
    Path(os.fsdecode(raw)).write_bytes(ksame_io.encode_png(scene))
    (photo,) = ksame_io.find_photos([tmp_path])
    assert os.fsencode(photo.name) == b"\xff\xfe\n.png"
    assert same(ksame_io.read_photo(photo.path), scene)
    Path(os.fsdecode(raw)).write_bytes(b"")
    with pytest.raises(InputError) as error:
        ksame_io.read_photo(photo.path)
    assert str(error.value).encode().isascii(), "the message can be printed on any terminal"


def test_what_cannot_be_found_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"There is no file or folder '.*nowhere'\.$"):
        ksame_io.find_photos([tmp_path / "nowhere"])
    touch(tmp_path / "a.txt", tmp_path / "a.heic", tmp_path / "d/a.png")
    with pytest.raises(InputError, match=r"a\.txt' is neither a photo nor a video"):
        ksame_io.find_photos([tmp_path / "a.txt"])
    monkeypatch.setattr("ksame.io.sources.PHOTO_SUFFIXES", frozenset({".png"}))
    with pytest.raises(InputError, match=r"pip install 'ksame\[heic\]'"):
        ksame_io.find_photos([tmp_path / "a.heic"])


def test_a_folder_that_cannot_be_listed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: object) -> None:  # root may list any folder, so the refusal is played
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(InputError, match="cannot be read: Permission denied"):
        ksame_io.find_photos([tmp_path])


# read


@pytest.mark.parametrize("suffix", ["png", "bmp", "tif", "ppm", "webp", "jpg"])
def test_every_format_gives_the_same_picture(
    suffix: str, save: Callable[..., Path], scene: np.ndarray
) -> None:
    options = {"lossless": True} if suffix == "webp" else {"quality": 95} if suffix == "jpg" else {}
    got = ksame_io.read_photo(save(f"a.{suffix}", **options))
    assert alike(got, scene) if suffix == "jpg" else same(got, scene)


def test_heic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.heic"
    path.write_bytes(HEIC)
    rgb = ksame_io.read_photo(path)
    assert rgb.shape == (64, 64, 3)
    assert alike(rgb[:, :28], np.full((64, 28, 3), (200, 40, 40)))
    assert alike(rgb[:, 36:], np.full((64, 28, 3), (40, 40, 200)))
    monkeypatch.setattr("ksame.io.photos.PHOTO_SUFFIXES", frozenset({".png"}))  # as without pi_heif
    with pytest.raises(InputError, match="damaged or not a photo"):
        ksame_io.read_photo(path)


@pytest.mark.parametrize(
    ("mode", "suffix"),
    [
        *(("P", "png"), ("RGBA", "png"), ("RGBA", "webp"), ("CMYK", "tif"), ("YCbCr", "tif")),
        *(("L", "jpg"), ("1", "png"), ("1", "tif"), ("LA", "png"), ("PA", "tif")),
    ],
)
def test_every_mode_becomes_rgb(mode: str, suffix: str, save: Callable[..., Path], scene: np.ndarray) -> None:
    image = Image.fromarray(scene)
    if mode in ("L", "1", "LA", "PA"):
        image = image.convert("L").point(lambda value: 255 * (value > 100))
    got = ksame_io.read_photo(
        save(f"a.{suffix}", image.convert(mode, palette=Image.Palette.ADAPTIVE), lossless=True)
    )
    assert got.dtype == np.uint8 and got.flags.writeable
    assert same(got, np.asarray(image.convert("RGB")), 3)


@pytest.mark.parametrize("suffix", ["png", "tif", "pgm"])
def test_16_bits_become_8(suffix: str, save: Callable[..., Path]) -> None:
    deep = np.array([[0, 128, 129], [257, 32896, 65535]], np.uint16)
    got = ksame_io.read_photo(save(f"a.{suffix}", deep))
    assert got[:, :, 0].tolist() == [[0, 0, 1], [1, 128, 255]]
    assert (got == got[:, :, :1]).all()


def test_16_bit_colour_becomes_8(tmp_path: Path, scene: np.ndarray) -> None:
    path = tmp_path / "a.ppm"
    path.write_bytes(b"P6 64 48 65535\n" + (scene.astype(">u2") * 257).tobytes())
    assert same(ksame_io.read_photo(path), scene)
    path.with_suffix(".png").write_bytes(deep_png(scene))
    assert same(ksame_io.read_photo(path.with_suffix(".png")), scene)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def deep_png(rgb: np.ndarray) -> bytes:
    rows = b"".join(b"\0" + row.tobytes() for row in rgb.astype(">u2") * 257)
    head = struct.pack(">IIBBBBB", rgb.shape[1], rgb.shape[0], 16, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def test_32_bit_pixels_are_refused(save: Callable[..., Path]) -> None:
    for deep in (
        np.ones((2, 2), np.float32),
        np.array([[0, 65536]], np.int32),
        np.array([[-1, 1]], np.int32),
    ):
        with pytest.raises(InputError, match="32-bit pixels"):
            ksame_io.read_photo(save("a.tif", deep))


def test_transparent_pixels_are_white_and_what_lies_under_them_is_not_seen(
    save: Callable[..., Path], scene: np.ndarray
) -> None:
    alpha = np.full(scene.shape[:2], 255, np.uint8)
    alpha[:24] = 0
    want = scene.copy()
    want[:24] = 255
    assert same(ksame_io.read_photo(save("a.png", np.dstack([scene, alpha]))), want)
    palette = Image.fromarray(scene).quantize(4)
    index = palette.getpixel((0, 0))
    want = np.where((scene == scene[0, 0]).all(axis=2, keepdims=True), 255, scene)
    assert same(ksame_io.read_photo(save("p.png", palette, transparency=index)), want, 1)


def test_cmyk_jpeg_with_and_without_adobes_inversion(save: Callable[..., Path], scene: np.ndarray) -> None:
    path = save("a.jpg", Image.fromarray(scene).convert("CMYK"), quality=95)
    assert alike(ksame_io.read_photo(path), scene)
    data = path.read_bytes()
    at = data.index(b"\xff\xee")
    assert data[at + 4 : at + 9] == b"Adobe"
    path.write_bytes(data[:at] + data[at + 2 + 14 :])  # the same numbers, now not said to be inverted
    inverse = Image.fromarray(255 - np.asarray(Image.fromarray(scene).convert("CMYK")), "CMYK").convert("RGB")
    assert alike(ksame_io.read_photo(path), np.asarray(inverse))


def swapped_profile() -> bytes:
    """Return an sRGB profile by another name whose red and blue primaries have changed places."""
    data = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    data = bytearray(bytes(data).replace("sRGB".encode("utf-16-be"), "xRGB".encode("utf-16-be")))
    at = {bytes(data[i : i + 4]): i for i in range(132, 132 + 12 * data[131], 12)}
    data[at[b"rXYZ"] : at[b"rXYZ"] + 4], data[at[b"bXYZ"] : at[b"bXYZ"] + 4] = b"bXYZ", b"rXYZ"
    return bytes(data)


def test_an_embedded_profile_is_converted_to_srgb(save: Callable[..., Path], scene: np.ndarray) -> None:
    swapped = scene[:, :, ::-1]
    profile = swapped_profile()
    assert same(ksame_io.read_photo(save("a.png", icc_profile=profile)), swapped, 2)
    assert alike(ksame_io.read_photo(save("a.jpg", icc_profile=profile, quality=95)), swapped)
    see_through = Image.fromarray(scene).convert("RGBA")
    assert same(ksame_io.read_photo(save("b.png", see_through, icc_profile=profile)), swapped, 2)
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    assert same(ksame_io.read_photo(save("c.png", icc_profile=srgb)), scene)


def test_a_profile_that_is_broken_or_for_other_colours_is_ignored(
    save: Callable[..., Path], scene: np.ndarray
) -> None:
    assert same(ksame_io.read_photo(save("a.png", icc_profile=b"nonsense")), scene)
    grey = Image.fromarray(scene).convert("L")
    got = ksame_io.read_photo(save("b.png", grey, icc_profile=swapped_profile()))
    assert same(got, np.asarray(grey.convert("RGB")))


def test_a_damaged_exif_block_does_not_cost_the_photo(save: Callable[..., Path], scene: np.ndarray) -> None:
    for block in (
        b"Exif\0\0",
        b"Exif\0\0II*\0\xff\xff\xff\xff",
        b"Exif\0\0garbage",
        b"Exif\0\0MM\0*\0\0\0\x08\xff\xff",
    ):
        assert alike(ksame_io.read_photo(save("a.jpg", exif=block, quality=95)), scene)


def test_of_several_frames_the_first_counts(save: Callable[..., Path], scene: np.ndarray) -> None:
    second = Image.fromarray(255 - scene)
    for name in ("a.tif", "a.webp", "a.png"):
        path = save(name, save_all=True, append_images=[second], lossless=True)
        assert same(ksame_io.read_photo(path), scene)
    assert alike(
        ksame_io.read_photo(save("a.jpg", save_all=True, format="MPO", append_images=[second])), scene
    )


def huge_png() -> bytes:
    head = struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


def test_what_is_not_a_photo_is_named_in_one_sentence(save: Callable[..., Path], tmp_path: Path) -> None:
    whole = {
        suffix: save(f"whole.{suffix}").read_bytes() for suffix in ("jpg", "png", "webp", "bmp", "tif", "ppm")
    }
    bad = {f"half.{suffix}": data[: len(data) * 2 // 3] for suffix, data in whole.items()}
    bad |= {"empty.jpg": b"", "text.jpg": b"hello, this is not a photo\n", "huge.png": huge_png()}
    bad |= {"half.heic": HEIC[:300], "evil.jpg": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n"}
    bad |= {"flip.png": whole["png"][:45] + b"\xff" + whole["png"][46:]}
    for name, data in bad.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "folder.jpg").mkdir()
    (tmp_path / "dangling.jpg").symlink_to("nowhere.jpg")
    os.mkfifo(tmp_path / "pipe.jpg")
    for name in [*bad, "folder.jpg", "dangling.jpg", "pipe.jpg", "missing.jpg"]:
        with pytest.raises(InputError) as error:
            ksame_io.read_photo(tmp_path / name)
        message = str(error.value)
        assert name in message and message.endswith(".") and "\n" not in message


def test_a_file_that_may_not_be_opened(save: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = save("a.png")

    def refuse(*_: object, **__: object) -> None:  # root may open any file, so the refusal is played
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Image, "open", refuse)
    with pytest.raises(InputError, match=r"a\.png' cannot be read: Permission denied\.$"):
        ksame_io.read_photo(path)


def test_the_limit_is_checked_before_decoding(
    save: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ksame.io.photos.MAX_PIXELS", 48 * 64 - 1)
    monkeypatch.setattr(PngImagePlugin.PngImageFile, "load", lambda self: pytest.fail("it was decoded"))
    with pytest.raises(InputError, match="more than 0 million pixels"):
        ksame_io.read_photo(save("a.png"))


def test_warnings_stay_inside_also_with_threads(save: Callable[..., Path]) -> None:
    paths = [save(f"{i}.jpg", exif=b"Exif\0\0II*\0\x08\0\0\0\xff\xff") for i in range(8)]
    before = list(warnings.filters)
    failures: list[Exception] = []

    def work(path: Path) -> None:
        try:
            for _ in range(20):
                ksame_io.read_photo(path)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(path,)) for path in paths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert warnings.filters == before


def test_a_preview_is_smaller_and_tells_its_scale(save: Callable[..., Path], scene: np.ndarray) -> None:
    large = scene.repeat(8, axis=0).repeat(8, axis=1)  # (384, 512, 3)
    path = save("a.jpg", large, quality=95)
    for at_least, scale in ((1000, 1), (384, 1), (192, 2), (100, 2), (96, 4), (48, 8), (1, 8)):
        rgb, got = ksame_io.read_preview(path, at_least=at_least)
        assert got == scale
        assert alike(rgb, large[::scale, ::scale])
    assert ksame_io.read_preview(save("tiny.jpg", large[:9, :9]), at_least=1)[1] == 8
    assert ksame_io.read_preview(save("a.png"), at_least=1)[1] == 1
    with pytest.raises(UsageError, match="positive"):
        ksame_io.read_preview(path, at_least=0)


# encode


@pytest.mark.parametrize("suffix", [".png", ".PNG", ".jpg", ".jpeg", ".webp"])
def test_encoding_is_deterministic_and_bare(suffix: str, scene: np.ndarray) -> None:
    data = ksame_io.encode(scene, suffix)
    assert data == ksame_io.encode(scene.copy(order="F"), suffix)
    assert ksame_io.metadata_of(data) == []
    got = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    assert same(got, scene) if suffix.lower() == ".png" else alike(got, scene)
    assert ksame_io.encode_png(scene) == ksame_io.encode(scene, ".png")


def test_what_cannot_be_encoded(scene: np.ndarray) -> None:
    with pytest.raises(UsageError, match=r"written as .*\.png.*Got '\.heic'"):
        ksame_io.encode(scene, ".heic")
    for wrong in (scene[:, :, 0], scene.astype(float), scene[:0], np.dstack([scene, scene])):
        with pytest.raises(UsageError, match=r"must be \(h, w, 3\) uint8"):
            ksame_io.encode_png(wrong)
    with pytest.raises(UsageError, match=r"too large for \.webp"):
        ksame_io.encode(np.zeros((1, 16384, 3), np.uint8), ".webp")


# metadata_of


def test_metadata_is_seen_in_jpeg(save: Callable[..., Path]) -> None:
    exif = Image.Exif()
    exif[0x010F] = "camera"
    bare = save("a.jpg").read_bytes()
    assert ksame_io.metadata_of(bare) == []
    assert ksame_io.metadata_of(save("b.jpg", progressive=True, restart_marker_blocks=1).read_bytes()) == []
    assert ksame_io.metadata_of(save("k.jpg", Image.new("CMYK", (8, 8))).read_bytes()) == []
    options = {"exif": exif, "comment": "by me", "icc_profile": b"x" * 99, "xmp": b"<x/>"}
    assert ksame_io.metadata_of(save("c.jpg", **options).read_bytes()) == ["EXIF", "ICC", "XMP", "comment"]

    def segment(marker: int, data: bytes) -> bytes:
        return bytes([0xFF, marker]) + struct.pack(">H", len(data) + 2) + data

    for block, seen in [
        (segment(0xED, b"Photoshop 3.0\x008BIM"), ["IPTC"]),
        (segment(0xE0, b"JFXX\0\x10"), ["thumbnail"]),
        (segment(0xE0, b"JFIF\0\1\1\0\0\1\0\1\1\1rgb"), ["thumbnail"]),
        (segment(0xE1, b"Exif\0\0...\xff\xd8\xff..."), ["EXIF", "thumbnail"]),
        (segment(0xE2, b"MPF\0"), ["APP2"]),
        (segment(0xEE, b"Adobe and more than colour"), ["APP14"]),
        (segment(0xEB, b"new"), ["APP11"]),
    ]:
        assert ksame_io.metadata_of(bare[:2] + block + bare[2:]) == seen
        assert ksame_io.metadata_of(bare[:-2] + block + bare[-2:]) == seen, "also after a scan"
    assert ksame_io.metadata_of(bare + b"motion photo") == ["trailing data"]


def test_metadata_is_seen_in_png(save: Callable[..., Path]) -> None:
    bare = save("a.png").read_bytes()
    assert ksame_io.metadata_of(bare) == []
    text = PngImagePlugin.PngInfo()
    text.add_text("Author", "me")
    text.add_itxt("XML:com.adobe.xmp", "<x/>")
    text.add(b"tIME", b"\x07\xe8\1\1\0\0\0")
    exif = Image.Exif()
    exif[0x010F] = "camera"
    full = save("b.png", pnginfo=text, exif=exif, icc_profile=b"x" * 99, dpi=(72, 72)).read_bytes()
    assert ksame_io.metadata_of(full) == ["EXIF", "ICC", "XMP", "pHYs", "text", "time"]
    assert ksame_io.metadata_of(bare + b"x") == ["trailing data"]


def test_metadata_is_seen_in_webp(save: Callable[..., Path]) -> None:
    bare = save("a.webp").read_bytes()
    assert ksame_io.metadata_of(bare) == []
    exif = Image.Exif()
    exif[0x010F] = "camera"
    full = save("b.webp", exif=exif, xmp=b"<x/>", icc_profile=b"x" * 99).read_bytes()
    assert ksame_io.metadata_of(full) == ["EXIF", "ICC", "XMP"]
    assert ksame_io.metadata_of(bare + b"x") == ["trailing data"]
    grown = bare[:4] + struct.pack("<I", len(bare) + 2) + bare[8:] + b"note\x01\0\0\0x\0"
    assert ksame_io.metadata_of(grown) == ["note"]


def test_a_file_cut_short_or_of_another_kind_is_not_called_clean(save: Callable[..., Path]) -> None:
    for suffix in ("jpg", "png", "webp"):
        data = save(f"a.{suffix}").read_bytes()
        for end in (len(data) - 1, len(data) // 2, 13):
            with pytest.raises(InputError, match="ends too early"):
                ksame_io.metadata_of(data[:end])
    for other in (b"", b"GIF89a", b"RIFF\4\0\0\0WAVE"):
        with pytest.raises(InputError, match="Only JPEG, PNG and WebP"):
            ksame_io.metadata_of(other)


# publish


def hello(partial: Path) -> None:
    (partial / "images").mkdir()
    (partial / "images/a.png").write_bytes(b"new")
    (partial / "certificate.json").write_text("{}")


def tree(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


WHOLE = ["out", "out/certificate.json", "out/images", "out/images/a.png"]


def test_a_folder_appears_whole_with_equal_times(tmp_path: Path) -> None:
    (tmp_path / "deep/out").mkdir(parents=True)  # empty is as good as new

    def write(partial: Path) -> None:
        assert tree(tmp_path / "deep/out") == [], "nothing is seen before the end"
        assert partial.parent == tmp_path / "deep" and partial.name.startswith(".out.")
        hello(partial)

    ksame_io.publish_folder(tmp_path / "deep/out", write)
    assert tree(tmp_path / "deep") == WHOLE
    inside = [tmp_path / "deep/out", *(tmp_path / "deep/out").rglob("*")]
    assert {path.stat().st_mtime_ns for path in inside} == {315_532_800 * 10**9}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, InputError])
def test_nothing_is_left_after_an_exception(tmp_path: Path, error: type[BaseException]) -> None:
    def write(partial: Path) -> None:
        hello(partial)
        raise error("no")

    with pytest.raises(error, match="no"):
        ksame_io.publish_folder(tmp_path / "out", write)
    assert tree(tmp_path) == []


def test_only_our_own_folders_are_overwritten_and_only_when_allowed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    ksame_io.publish_folder(out, hello)
    with pytest.raises(UsageError, match="exists already"):
        ksame_io.publish_folder(out, hello)
    ksame_io.publish_folder(
        out, lambda partial: (partial / "certificate.json").write_text("2") and None, overwrite=True
    )
    assert tree(tmp_path) == ["out", "out/certificate.json"]

    def fail(partial: Path) -> None:
        raise ValueError

    with pytest.raises(ValueError):
        ksame_io.publish_folder(out, fail, overwrite=True)
    assert (out / "certificate.json").read_text() == "2", "the old release stays when the new one fails"
    touch(tmp_path / "photos/me.jpg", tmp_path / "file")
    for target in ("photos", "file"):
        with pytest.raises(UsageError, match="was not written by ksame"):
            ksame_io.publish_folder(tmp_path / target, hello, overwrite=True)
    assert (tmp_path / "photos/me.jpg").exists()


def test_the_old_folder_comes_back_when_the_move_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    ksame_io.publish_folder(out, hello)
    rename = Path.rename

    def stumble(self: Path, target: Path) -> Path:
        if self.suffix == ".partial":
            raise OSError(errno.EIO, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", stumble)
    with pytest.raises(KSameError, match="could not be written: Input/output error"):
        ksame_io.publish_folder(out, hello, overwrite=True)
    with pytest.raises(KSameError, match="could not be written: Input/output error"):
        ksame_io.publish_folder(tmp_path / "new", hello)
    assert tree(tmp_path) == WHOLE


def test_a_full_disk_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    def write(partial: Path) -> None:
        hello(partial)
        Path("/dev/full").write_bytes(b"x" * 9999)

    with pytest.raises(KSameError, match=r"^The disk is full: '.*out' was not written\.$"):
        ksame_io.publish_folder(tmp_path / "out", write)
    assert tree(tmp_path) == []


def run(code: str, *arguments: object, limit: int | None = None) -> subprocess.Popen[str]:
    def before() -> None:
        if limit:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=before)


def test_a_file_over_the_limit_of_the_process_leaves_nothing(tmp_path: Path) -> None:
    code = """
import sys
from ksame import io
try:
    io.publish_folder(sys.argv[1], lambda partial: (partial / "a.png").write_bytes(bytes(10**6)))
except Exception as error:
    print(type(error).__name__, error)
"""
    with run(code, tmp_path / "out", limit=10**5) as process:
        output, _ = process.communicate(timeout=60)
    assert output.startswith("KSameError The disk is full")
    assert tree(tmp_path) == []


def test_a_killed_run_leaves_no_folder_and_the_next_one_cleans_up(tmp_path: Path) -> None:
    code = """
import sys, time
from ksame import io
def write(partial):
    (partial / "a.png").write_bytes(b"half")
    print("writing", flush=True)
    time.sleep(60)
io.publish_folder(sys.argv[1], write)
"""
    touch(tmp_path / ".out.b.01234567.partial/other-target")
    with run(code, tmp_path / "out") as process:
        assert process.stdout is not None and process.stdout.readline() == "writing\n"
        process.send_signal(signal.SIGKILL)
    assert not (tmp_path / "out").exists()
    stale = [
        path for path in tmp_path.iterdir() if path.name.startswith(".out.") and path.suffix == ".partial"
    ]
    assert len(stale) == 2
    assert ksame_io.find_photos([tmp_path]) == []
    ksame_io.publish_folder(tmp_path / "out", hello)
    assert tree(tmp_path) == [".out.b.01234567.partial", ".out.b.01234567.partial/other-target", *WHOLE]
