"""A photo file becomes the pixels a viewer would show, or one sentence that says why not."""

from __future__ import annotations

import io
import threading
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageCms, UnidentifiedImageError

from ksame.core.errors import InputError, UsageError
from ksame.io.find import HEIC_SUFFIXES, PHOTO_SUFFIXES

RGB = NDArray[np.uint8]  # (h, w, 3)
MAX_PIXELS = 178_956_970  # Pillow's own limit against decompression bombs: half a gigabyte as RGB


def read_photo(path: str | Path) -> RGB:
    """Return a photo as it is meant to be seen: upright, sRGB, 8 bits, (h, w, 3).

    Orientation marks are applied and embedded colour profiles are converted; 16 bits become 8;
    transparent pixels are laid on white; of several frames the first counts.

    Parameters
    ----------
    path : str or Path
        The photo.

    Raises
    ------
    InputError
        If it is not a whole photo of at most 178 million pixels.

    Examples
    --------
    >>> import tempfile
    >>> from ksame.io import encode_png
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "red.png")
    ...     _ = path.write_bytes(encode_png(np.full((2, 3, 3), (255, 0, 0), np.uint8)))
    ...     read_photo(path)[0, 0].tolist(), read_photo(path).shape
    ([255, 0, 0], (2, 3, 3))
    """
    return _decode(Path(path), None)[0]


def read_preview(path: str | Path, *, at_least: int) -> tuple[RGB, int]:
    """Return a photo at 1/scale of its size, and scale: 1, 2, 4 or 8.

    A JPEG is decoded at the smaller size right away, which is several times as fast; other formats
    come at scale 1. A point (x, y) of the preview lies at scale * (x, y) in the photo.

    Parameters
    ----------
    path : str or Path
        The photo.
    at_least : int
        Both sides keep at least so many pixels, if the photo has them.
    """
    if at_least < 1:
        raise UsageError(f"at_least must be a positive number of pixels. Got {at_least}.")
    return _decode(Path(path), at_least)


def _decode(path: Path, at_least: int | None) -> tuple[RGB, int]:
    if not path.is_file():  # a pipe would block for ever
        raise InputError(f"{str(path)!r} cannot be read: it is not a file, or links to none.")
    try:
        with _silence_pillow, Image.open(path, formats=_formats()) as image:
            if image.width * image.height > MAX_PIXELS:  # known from the header alone
                raise ValueError(f"it has more than {MAX_PIXELS // 10**6} million pixels")
            width, drafted = image.width, None
            if at_least is not None:
                drafted = image.draft(None, (at_least, at_least))  # None for all but JPEG
            scale = round(width / drafted[1][2]) if drafted else 1
            image.load()  # before the orientation: PNG may tell it last, TIFF applies it on its own
            return np.array(_upright(image, _srgb(_opaque(image), image.info.get("icc_profile")))), scale
    except Exception as error:  # damaged files make decoders raise nearly anything
        raise InputError(f"{str(path)!r} cannot be read: {_reason(error)}.") from error


def _reason(error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        return "it is damaged or not a photo"  # Pillow's own words repeat the path
    words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return words.strip().partition("\n")[0].rstrip(".") or type(error).__name__


@cache
def _formats() -> tuple[str, ...]:
    """Name the decoders that a stranger's file may reach; all others of Pillow stay shut."""
    plain = ("BMP", "DIB", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
    if not HEIC_SUFFIXES <= PHOTO_SUFFIXES:
        return plain
    import pi_heif

    pi_heif.register_heif_opener()
    return (*plain, "HEIF")


class _SilencePillow:
    """Silence Pillow's warnings, also when threads read at the same time.

    ``warnings.catch_warnings`` alone restores another thread's filters when blocks overlap.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = warnings.catch_warnings()
                self._before.__enter__()
                warnings.simplefilter("ignore")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._before.__exit__(None, None, None)


_silence_pillow = _SilencePillow()


def _opaque(image: Image.Image) -> Image.Image:
    """Return the picture as L, RGB or CMYK in 8 bits without transparency."""
    if image.mode[0] in "IF":
        grey = np.asarray(image)
        if grey.dtype.kind == "f" or grey.max() > 65535 or grey.min() < 0:
            raise ValueError("it has 32-bit pixels, save it with 8 or 16 bits first")
        return Image.fromarray(((grey.astype(np.uint32) + 128) // 257).astype(np.uint8))  # 65535 = 255 * 257
    if image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image.convert("RGBA")).convert("RGB")
    if image.mode == "CMYK" and image.format in ("JPEG", "MPO") and "adobe" not in image.info:
        return ImageChops.invert(image)  # Pillow takes all for Adobe's, which store the inverse
    return image if image.mode in ("L", "RGB", "CMYK") else image.convert("RGB")


def _srgb(image: Image.Image, embedded: bytes | None) -> Image.Image:
    """Return the picture in sRGB by its embedded profile; a broken profile is ignored, as viewers do."""
    if embedded:
        with suppress(ImageCms.PyCMSError, OSError, ValueError):
            profile = ImageCms.ImageCmsProfile(io.BytesIO(embedded))
            if "sRGB" not in ImageCms.getProfileDescription(profile):
                target = ImageCms.createProfile("sRGB")
                return ImageCms.profileToProfile(image, profile, target, outputMode="RGB") or image
    return image if image.mode == "RGB" else image.convert("RGB")


_ORIENTATIONS = {  # EXIF 2.3, tag 0x0112: how the stored picture is turned to stand upright
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def _upright(marked: Image.Image, image: Image.Image) -> Image.Image:
    """Turn the picture as the file's mark says; an unreadable mark is no mark."""
    turn = None
    with suppress(Exception):  # a damaged EXIF block raises nearly anything, and the pixels are fine
        turn = _ORIENTATIONS.get(marked.getexif().get(0x0112, 1))
    return image if turn is None else image.transpose(turn)
