"""What callers hand to an attack, made sense of or refused in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ksame.core.arrays import FloatArray
from ksame.core.errors import InputError, UsageError
from ksame.io.sources import ImageInput, Source

FacesInput = ArrayLike | Sequence[ImageInput] | Sequence[Source]
"""Codes (n, d), or n pictures: uint8 arrays (h, w, 3) or (h, w), or paths; one face is looked at in each."""


def as_codes_or_images(faces: FacesInput, name: str) -> FloatArray | list[Source]:
    """Return codes (n, d), or pictures; checked, because an unreadable one would count as well hidden."""
    if isinstance(faces, str | Path):
        raise UsageError(f"{name} must be codes (n, d) or a list of pictures. Got one path, {str(faces)!r}.")
    items: Any = np.asarray(faces) if hasattr(faces, "__array__") else list(faces)  # type: ignore[arg-type]
    if not len(items):
        raise UsageError(f"{name} must show at least one face: there are none.")
    if isinstance(items[0], Source):
        return list(items)
    if isinstance(items[0], str | Path):
        missing = [str(item) for item in items if not Path(item).is_file()]
        if missing:
            raise InputError(f"There is no picture {missing[0]}, one of the {name}.")
        return [Source(str(item), Path(item)) for item in items]
    if np.ndim(items[0]) >= 2:
        return [Source(f"{name}[{i}]", _as_image(item, name)) for i, item in enumerate(items)]
    try:
        codes = np.asarray(items, dtype=np.float64)
    except (TypeError, ValueError):
        raise UsageError(f"{name} must be codes: n rows of equally many numbers.") from None
    if codes.ndim != 2 or not codes.shape[1]:
        raise UsageError(f"{name} must be codes (n, d) or a list of pictures. Got {codes.shape}.")
    if np.isinf(codes).any():
        raise UsageError(f"{name} must be finite, or NaN where no face was found.")
    return codes


def as_images(faces: FacesInput) -> list[Source]:
    """Return pictures, for attacks that look at pixels."""
    sources = as_codes_or_images(faces, "pictures")
    if not isinstance(sources, list):
        raise UsageError("Codes have neither blocks nor blur: this attack needs pictures.")
    return sources


def _as_image(item: ArrayLike, name: str) -> NDArray[np.uint8]:
    """Return a picture as bytes; real numbers are taken as 0 .. 1 if they all are, else as 0 .. 255."""
    image = np.asarray(item)
    if image.ndim == 3 and image.shape[2] == 1:
        image = image[..., 0]
    if image.ndim not in (2, 3) or (image.ndim == 3 and image.shape[2] != 3):
        raise UsageError(f"{name} must be pictures (h, w, 3) or (h, w). Got {image.shape}.")
    if image.dtype.kind == "f" and image.size and image.min() >= 0 and image.max() <= 1:
        image = image * 255
    if image.dtype != np.uint8:
        image = np.clip(np.rint(np.nan_to_num(image)), 0, 255).astype(np.uint8)
    return image


def apply_method(method: Callable[[Any], Any], faces: Any) -> Any:
    """Return what a method makes of faces, without a guarantee that may come along."""
    new = method(faces)
    if isinstance(new, tuple) and len(new) == 2 and not isinstance(new[1], np.ndarray):
        new = new[0]
    if len(new) != len(faces):
        raise UsageError(f"The method must return one face for each of {len(faces)}. Got {len(new)}.")
    return new


def match_subjects(
    counts: Sequence[int], subjects: ArrayLike | None, released_subjects: ArrayLike | None
) -> list[NDArray[Any]]:
    """Return who is who on both sides."""
    if counts[0] != counts[1] and (subjects is None or released_subjects is None):
        raise UsageError(
            f"There are {counts[0]} originals and {counts[1]} released faces: say who is who with"
            " subjects and released_subjects."
        )
    same = subjects if subjects is not None else released_subjects
    same = np.arange(counts[0]) if same is None else same
    sides = [same if side is None else side for side in (subjects, released_subjects)]
    who = [np.asarray(side).ravel() for side in sides]
    for count, side, name in zip(counts, who, ("subjects", "released_subjects"), strict=True):
        if len(side) != count:
            raise UsageError(f"{name} must name each of {count} faces. Got {len(side)}.")
    if who[0].dtype.kind != who[1].dtype.kind:
        who = [side.astype(str) for side in who]  # 7 and "7" are one person
    if not set(who[0].tolist()) & set(who[1].tolist()):
        raise UsageError("Nobody is on both sides: nothing can be recognised, or measured.")
    check_several_people(len(set(who[0].tolist())))
    return who


def check_several_people(people: int) -> None:
    """Raise unless there are several people to choose from."""
    if people < 2:
        raise UsageError("At least 2 people are needed: among one alone every guess is right.")


def check_one_per_face(
    photos: ArrayLike | None, faces: Sequence[Any] | FloatArray, name: str
) -> ArrayLike | None:
    """Return photos, checked to be as many as the faces."""
    if photos is not None and len(np.asarray(photos)) != len(faces):
        raise UsageError(f"Each face needs one {name}. Got {len(np.asarray(photos))} for {len(faces)}.")
    return photos


def resolve_bound(bound: float | None, k: int | None) -> float | None:
    """Return the bound that was promised, which may be said in two ways."""
    if bound is not None and k is not None:
        raise UsageError("Give bound or k, not both: k is another way to say bound=1/k.")
    if k is not None:
        if k < 1:
            raise UsageError(f"k must be at least 1. Got {k}.")
        return 1 / k
    if bound is not None and not 0 <= bound <= 1:
        raise UsageError(f"bound must be in [0, 1]. Got {bound}.")
    return bound
