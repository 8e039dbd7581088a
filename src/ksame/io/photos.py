"""Read photos as a viewer would show them, upright, in sRGB, 8 bits; encode images without metadata."""

from __future__ import annotations

import io
import threading
import warnings
from contextlib import suppress
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageCms, UnidentifiedImageError

from ksame.core.errors import InputError, UsageError
from ksame.io.sources import HEIC_SUFFIXES, PHOTO_SUFFIXES, Source

RGB = NDArray[np.uint8]  # (h, w, 3)
MAX_PIXELS = 178_956_970  # Pillow's limit against decompression bombs: half a gigabyte as RGB


def read_photo(path: str | Path) -> RGB:
    """Return a photo upright, in sRGB and 8 bits, (h, w, 3).

    EXIF orientation and embedded colour profiles are applied; 16 bits become 8; transparent pixels are
    composited on white; of several frames the first is read.

    Parameters
    ----------
    path : str or Path
        The photo.

    Raises
    ------
    InputError
        If it is not a complete photo of at most 178 million pixels.

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
    """Return a photo at 1/scale of its size, and the scale: 1, 2, 4 or 8.

    A JPEG is decoded directly at the smaller size, several times as fast; other formats have scale 1.
    A point (x, y) of the preview lies at scale * (x, y) in the photo.

    Parameters
    ----------
    path : str or Path
        The photo.
    at_least : int
        Minimum pixels of both sides, if the photo has them.
    """
    if at_least < 1:
        raise UsageError(f"at_least must be a positive number of pixels. Got {at_least}.")
    return _decode(Path(path), at_least)


def _decode(path: Path, at_least: int | None) -> tuple[RGB, int]:
    if not path.is_file():  # a pipe would block forever
        raise InputError(f"{str(path)!r} cannot be read: it is not a file, or a broken link.")
    try:
        with _silence_pillow, Image.open(path, formats=_formats()) as image:
            if image.width * image.height > MAX_PIXELS:  # known from the header alone
                raise ValueError(f"it has more than {MAX_PIXELS // 10**6} million pixels")
            width, drafted = image.width, None
            if at_least is not None:
                drafted = image.draft(None, (at_least, at_least))  # None for all but JPEG
            scale = round(width / drafted[1][2]) if drafted else 1
            image.load()  # before the orientation: PNG may store it last, TIFF applies it itself
            return np.array(_upright(image, _srgb(_opaque(image), image.info.get("icc_profile")))), scale
    except Exception as error:  # damaged files make decoders raise nearly anything
        raise InputError(f"{str(path)!r} cannot be read: {_reason(error)}.") from error


def _reason(error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        return "it is damaged or not a photo"  # Pillow's message repeats the path
    message = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return message.strip().partition("\n")[0].rstrip(".") or type(error).__name__


def _formats() -> tuple[str, ...]:
    """Return the decoders that untrusted files may reach; all others of Pillow stay disabled."""
    formats = ("BMP", "DIB", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
    if not HEIC_SUFFIXES <= PHOTO_SUFFIXES:
        return formats
    import pi_heif

    pi_heif.register_heif_opener()
    return (*formats, "HEIF")


class _SilencePillow:
    """Silence Pillow's warnings, also while several threads read.

    ``warnings.catch_warnings`` alone restores the filters of another thread when blocks overlap.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._users:
                self._before = warnings.catch_warnings()
                self._before.__enter__()
                warnings.simplefilter("ignore")
            self._users += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                self._before.__exit__(None, None, None)


_silence_pillow = _SilencePillow()


def _opaque(image: Image.Image) -> Image.Image:
    """Return an image as L, RGB or CMYK in 8 bits without transparency."""
    if image.mode[0] in "IF":
        grey = np.asarray(image)
        if grey.dtype.kind == "f" or grey.max() > 65535 or grey.min() < 0:
            raise ValueError("it has 32-bit pixels, save it with 8 or 16 bits first")
        return Image.fromarray(((grey.astype(np.uint32) + 128) // 257).astype(np.uint8))  # 65535 = 255 * 257
    if image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image.convert("RGBA")).convert("RGB")
    if image.mode == "CMYK" and image.format in ("JPEG", "MPO") and "adobe" not in image.info:
        return ImageChops.invert(image)  # Pillow assumes Adobe's files, which store the inverse
    return image if image.mode in ("L", "RGB", "CMYK") else image.convert("RGB")


def _srgb(image: Image.Image, embedded: bytes | None) -> Image.Image:
    """Convert an image to sRGB by its embedded profile; a broken profile is ignored, as viewers do."""
    if embedded:
        with suppress(ImageCms.PyCMSError, OSError, ValueError):
            profile = ImageCms.ImageCmsProfile(io.BytesIO(embedded))
            if "sRGB" not in ImageCms.getProfileDescription(profile):
                target = ImageCms.createProfile("sRGB")
                return ImageCms.profileToProfile(image, profile, target, outputMode="RGB") or image
    return image if image.mode == "RGB" else image.convert("RGB")


_ORIENTATIONS = {  # EXIF 2.3, tag 0x0112: the transform that makes the stored image upright
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def _upright(original: Image.Image, image: Image.Image) -> Image.Image:
    """Apply the EXIF orientation of the original to an image; a damaged one is ignored."""
    transpose = None
    with suppress(Exception):  # a damaged EXIF block raises nearly anything, and the pixels are fine
        transpose = _ORIENTATIONS.get(original.getexif().get(0x0112, 1))
    return image if transpose is None else image.transpose(transpose)


def read_pixels(source: Source) -> NDArray[np.uint8]:
    """Return the pixels (h, w, 3) of a source, checked."""
    if isinstance(source.pixels, Path):
        return read_photo(source.pixels)
    rgb = np.asarray(source.pixels() if callable(source.pixels) else source.pixels)
    if rgb.dtype != np.uint8 or rgb.ndim not in (2, 3) or (rgb.ndim == 3 and rgb.shape[2] != 3):
        raise InputError(f"{source.name} must be (h, w, 3) or (h, w) uint8. Got {rgb.shape} {rgb.dtype}")
    return np.ascontiguousarray(rgb if rgb.ndim == 3 else np.repeat(rgb[..., None], 3, axis=2))


def encode_png(rgb: NDArray[np.uint8]) -> bytes:
    """Encode an image as PNG: equal pixels give equal bytes, without metadata.

    Examples
    --------
    >>> from ksame.io import metadata_of
    >>> metadata_of(encode_png(np.zeros((2, 2, 3), np.uint8)))
    []
    """
    return encode(rgb, ".png")


_SETTINGS = {  # parameters, and the longest side in pixels that the format or its library supports
    ".jpeg": ([cv2.IMWRITE_JPEG_QUALITY, 95], 65_500),
    ".jpg": ([cv2.IMWRITE_JPEG_QUALITY, 95], 65_500),
    ".png": ([cv2.IMWRITE_PNG_COMPRESSION, 4], 1_000_000),
    ".webp": ([cv2.IMWRITE_WEBP_QUALITY, 95], 16_383),
}


def encode(rgb: NDArray[np.uint8], suffix: str) -> bytes:
    """Encode an image as ``.png``, ``.jpg``, ``.jpeg`` or ``.webp``, the types ``metadata_of`` can check.

    Parameters
    ----------
    rgb : (h, w, 3) uint8
        The image.
    suffix : str
        The suffix of the file's name, in upper or lower case.
    """
    if suffix.lower() not in _SETTINGS:
        raise UsageError(f"Images are written as {', '.join(sorted(_SETTINGS))}. Got {suffix!r}.")
    if rgb.ndim != 3 or rgb.shape[2] != 3 or rgb.dtype != np.uint8 or not rgb.size:
        raise UsageError(f"An image must be (h, w, 3) uint8. Got {rgb.shape} {rgb.dtype}.")
    parameters, side_max = _SETTINGS[suffix.lower()]
    bgr = np.ascontiguousarray(rgb[:, :, ::-1])
    done, data = cv2.imencode(suffix.lower(), bgr, parameters) if max(rgb.shape) <= side_max else (False, b"")
    if not done:
        raise UsageError(f"An image of {rgb.shape[1]} x {rgb.shape[0]} is too large for {suffix}.")
    return bytes(data)


def decode(data: bytes) -> NDArray[np.uint8]:
    """Return the pixels (h, w, 3) of a file that ``encode`` made, as a reader will see them.

    Examples
    --------
    >>> decode(encode_png(np.full((1, 1, 3), (1, 2, 3), np.uint8))).tolist()
    [[[1, 2, 3]]]
    """
    bgr = np.asarray(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR), np.uint8)
    return np.ascontiguousarray(bgr[:, :, ::-1])
