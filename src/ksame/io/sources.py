"""Sources: photos by name, and a way to read the pixels of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksame import io
from ksame.core.errors import InputError, UsageError

ImageInput = str | Path | NDArray[np.uint8]


class Source(NamedTuple):
    """One input: its name in the mapping, and where its pixels are, or what makes them when asked."""

    name: str
    pixels: Path | NDArray[np.uint8] | Callable[[], NDArray[np.uint8]]


def find_sources(
    inputs: ImageInput | Iterable[ImageInput], *, in_order: bool = False, may_be_none: bool = False
) -> list[Source]:
    """Return the photos that are meant, each with a name of its own.

    Parameters
    ----------
    inputs : path, array, or several
        Photos, folders of photos, or (h, w, 3) uint8 arrays.
    in_order : bool
        One photo per input in the order given, as a list of names needs it; folders are refused.
    may_be_none : bool
        Return an empty list where there is no photo.
    """
    given = [inputs] if isinstance(inputs, str | Path | np.ndarray) else list(inputs)
    paths = [Path(item) for item in given if not isinstance(item, np.ndarray)]
    if in_order and any(path.is_dir() for path in paths):
        raise UsageError(
            "A list of subjects goes with single photos: for folders give a csv, folder or prefix."
        )
    arrays = [Source(f"array-{i:05}", item) for i, item in enumerate(given) if isinstance(item, np.ndarray)]
    photos = [Source(photo.name, photo.path) for photo in io.find_photos(paths)]
    sources = arrays + photos
    if not sources and not may_be_none:
        raise UsageError(
            "There are no photos in what was given: name image files, or folders that hold some."
        )
    if not in_order:
        return sources
    if len(sources) != len(given):
        raise UsageError("A list of subjects goes with photos that are all different: one was given twice.")
    by_path = {photo.pixels: photo for photo in photos}
    by_name = {array.name: array for array in arrays}
    return [
        by_name[f"array-{i:05}"] if isinstance(item, np.ndarray) else by_path[Path(item)]
        for i, item in enumerate(given)
    ]


def read_pixels(source: Source) -> NDArray[np.uint8]:
    """Return the picture (h, w, 3) of a photo or of an array, checked."""
    if isinstance(source.pixels, Path):
        return io.read_photo(source.pixels)
    rgb = np.asarray(source.pixels() if callable(source.pixels) else source.pixels)
    if rgb.dtype != np.uint8 or rgb.ndim not in (2, 3) or (rgb.ndim == 3 and rgb.shape[2] != 3):
        raise InputError(f"{source.name} must be (h, w, 3) or (h, w) uint8. Got {rgb.shape} {rgb.dtype}")
    return np.ascontiguousarray(rgb if rgb.ndim == 3 else np.repeat(rgb[..., None], 3, axis=2))
