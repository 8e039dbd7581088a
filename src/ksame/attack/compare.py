"""Bring what callers hand to an attack to embeddings that can be compared, or refuse it in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ksame.attack.embed import embed_faces
from ksame.attack.recognisers import Recogniser, choose_recognisers, euclidean
from ksame.attack.score import Train
from ksame.core.arrays import FloatArray
from ksame.core.errors import InputError, UsageError, WeightsError
from ksame.io.photos import read_pixels
from ksame.io.sources import ImageInput, Source
from ksame.models.recognisers import default_recogniser

FacesInput = ArrayLike | Sequence[ImageInput] | Sequence[Source]
"""Embeddings (n, d), or n images, of which the largest face counts: uint8 (h, w, 3) or (h, w), or paths."""


class ComparableFaces(NamedTuple):
    """Originals and released faces as one recogniser compares them."""

    codes: tuple[NDArray[Any], NDArray[Any]]  # of the originals (g, d), and of the released faces (p, d)
    subjects: tuple[NDArray[Any], NDArray[Any]]  # the person of each
    train: Train
    recogniser: str


def make_comparable(
    originals: FacesInput,
    released: FacesInput,
    *,
    subjects: ArrayLike | None = None,
    released_subjects: ArrayLike | None = None,
    recogniser: str | Recogniser | Train | None = None,
    meshes: Mapping[int, FloatArray] | None = None,
    released_view: Callable[[Recogniser], Recogniser] | None = None,
    jobs: int | None = None,
) -> ComparableFaces:
    """Return both sides of an attack as embeddings of one recogniser.

    Parameters
    ----------
    originals, released, subjects, released_subjects, recogniser, jobs : see ``ksame.attack.AttackOptions``
    meshes : mapping of int to (c, 468, 2), optional
        Meshes of the faces of the originals, where they are known.
    released_view : callable, optional
        From a recogniser to the one that embeds the released faces, for instance after sharpening them.
    """
    old, new = as_codes_or_images(originals, "originals"), as_codes_or_images(released, "released")
    people = _match_subjects((len(old), len(new)), subjects, released_subjects)
    if isinstance(old, list) and isinstance(new, list):
        one = _resolve_recogniser(recogniser)
        pair = one, released_view(one) if released_view else one
        are_parallel = len(old) == len(new) and bool((people[0] == people[1]).all())
        codes, train, name = _embed_sides((old, new), pair, meshes or {}, are_parallel, jobs)
    elif isinstance(old, list) or isinstance(new, list):
        raise UsageError("Both sides must be codes, or both images: one of each cannot be compared.")
    else:
        codes, train, name = _check_codes((old, new), recogniser)
    return ComparableFaces(codes, people, train, name)


def as_codes_or_images(faces: FacesInput, name: str) -> NDArray[Any] | list[Source]:
    """Return embeddings (n, d), or images; checked, because an unreadable one would count as protected."""
    if isinstance(faces, str | Path):
        raise UsageError(f"{name} must be codes (n, d) or a list of images. Got one path, {str(faces)!r}.")
    items: Any = np.asarray(faces) if hasattr(faces, "__array__") else list(faces)  # type: ignore[arg-type]
    if not len(items):
        raise UsageError(f"{name} must show at least one face: there are none.")
    if isinstance(items[0], Source):
        return list(items)
    if isinstance(items[0], str | Path):
        missing = [str(item) for item in items if not Path(item).is_file()]
        if missing:
            raise InputError(f"There is no image {missing[0]}, one of the {name}.")
        return [Source(str(item), Path(item)) for item in items]
    if np.ndim(items[0]) >= 2:
        return [Source(f"{name}[{i}]", _as_image(item, name)) for i, item in enumerate(items)]
    try:
        is_compact = isinstance(items, np.ndarray) and (items.dtype.kind == "f" or items.dtype == np.uint8)
        codes = items if is_compact else np.asarray(items, dtype=np.float64)
    except (TypeError, ValueError):
        raise UsageError(f"{name} must be codes: n rows of equally many numbers.") from None
    if codes.ndim != 2 or not codes.shape[1]:
        raise UsageError(f"{name} must be codes (n, d) or a list of images. Got {codes.shape}.")
    if codes.dtype.kind == "f" and np.isinf(codes).any():
        raise UsageError(f"{name} must be finite, or NaN where no face was found.")
    return codes


def as_images(faces: FacesInput) -> list[Source]:
    """Return images, for attacks that need pixels."""
    sources = as_codes_or_images(faces, "images")
    if not isinstance(sources, list):
        raise UsageError("Codes have neither blocks nor blur: this attack needs images.")
    return sources


def _as_image(item: ArrayLike, name: str) -> NDArray[np.uint8]:
    """Return an image as bytes; real numbers are taken as 0 .. 1 if they all are, else as 0 .. 255."""
    image = np.asarray(item)
    if image.ndim == 3 and image.shape[2] == 1:
        image = image[..., 0]
    if image.ndim not in (2, 3) or (image.ndim == 3 and image.shape[2] != 3):
        raise UsageError(f"{name} must be images (h, w, 3) or (h, w). Got {image.shape}.")
    if image.dtype.kind == "f" and image.size and image.min() >= 0 and image.max() <= 1:
        image = image * 255
    if image.dtype != np.uint8:
        image = np.clip(np.rint(np.nan_to_num(image)), 0, 255).astype(np.uint8)
    return image


def _match_subjects(
    counts: tuple[int, int], subjects: ArrayLike | None, released_subjects: ArrayLike | None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the person of each face on both sides."""
    if counts[0] != counts[1] and (subjects is None or released_subjects is None):
        raise UsageError(
            f"There are {counts[0]} originals and {counts[1]} released faces: say who is who with"
            " subjects and released_subjects."
        )
    default = subjects if subjects is not None else released_subjects
    default = np.arange(counts[0]) if default is None else default
    old, new = (np.asarray(default if s is None else s).ravel() for s in (subjects, released_subjects))
    for count, side, name in ((counts[0], old, "subjects"), (counts[1], new, "released_subjects")):
        if len(side) != count:
            raise UsageError(f"{name} must name each of {count} faces. Got {len(side)}.")
    if old.dtype.kind != new.dtype.kind:
        old, new = old.astype(str), new.astype(str)  # 7 and "7" are one person
    if not set(old.tolist()) & set(new.tolist()):
        raise UsageError("Nobody is on both sides: nothing can be measured.")
    return old, new


def check_several_people(people: int) -> None:
    """Raise unless there are several people to choose from."""
    if people < 2:
        raise UsageError("At least 2 people are needed: with only one, every guess is right.")


def _check_codes(
    codes: tuple[NDArray[Any], NDArray[Any]], recogniser: str | Recogniser | Train | None
) -> tuple[tuple[NDArray[Any], NDArray[Any]], Train, str]:
    """Return the embeddings of both sides, checked, and how they are compared."""
    if codes[0].shape[1] != codes[1].shape[1]:
        widths = " and ".join(str(side.shape[1]) for side in codes)
        raise UsageError(f"Both sides must have codes of the same length. Got {widths} numbers a face.")
    if recogniser is None:
        return codes, euclidean, "euclidean"
    if isinstance(recogniser, str | Recogniser):
        one = _resolve_recogniser(recogniser)
        return codes, one.train, one.name
    return codes, recogniser, getattr(recogniser, "__name__", "recogniser")


def _resolve_recogniser(recogniser: str | Recogniser | Train | None) -> Recogniser:
    """Return the recogniser that is meant; None is the best that is available."""
    if isinstance(recogniser, Recogniser):
        return recogniser
    if isinstance(recogniser, str):
        return choose_recognisers(recogniser)[0][0]
    if recogniser is None:
        try:
            return choose_recognisers(default_recogniser())[0][0]
        except WeightsError:
            return choose_recognisers("lbp")[0][0]  # which needs no weights
    raise UsageError("A function that compares codes cannot read images: give a Recogniser or its name.")


def _embed_sides(
    sides: tuple[list[Source], list[Source]],
    recognisers: tuple[Recogniser, Recogniser],
    meshes: Mapping[int, FloatArray],
    are_parallel: bool,
    jobs: int | None,
) -> tuple[tuple[NDArray[Any], NDArray[Any]], Train, str]:
    """Return the embedding of the largest face in each image, NaN where there is none.

    An attacker who compares a photo with what was made of it can point at a face that no detector finds: it
    is where it was. The rest of such a photo is left out, see ``embed_faces``.
    """
    before = embed_faces(sides[0], [recognisers[0]], placed=meshes, jobs=jobs)
    after = embed_faces(sides[1], [recognisers[1]], jobs=jobs)
    name, train = recognisers[0].name, recognisers[0].train
    if not len(before) and not len(after):
        # chance would look like protection: without a detector an attacker compares the pixels
        flat = _as_rows([*sides[0], *sides[1]])
        return (flat[: len(sides[0])], flat[len(sides[0]) :]), euclidean, "pixels"
    old, new = before.largest(len(sides[0])), after.largest(len(sides[1]))
    codes = before.rows(old).codes[name], after.rows(new).codes[name]
    lost = [
        i for i in np.flatnonzero(new < 0).tolist() if are_parallel and old[i] >= 0 and _same_size(i, sides)
    ]
    if lost:
        placed = {j: meshes[i] if i in meshes else before.points[[old[i]]] for j, i in enumerate(lost)}
        again = embed_faces([sides[1][i] for i in lost], [recognisers[1]], placed=placed, jobs=jobs)
        codes[1][lost] = again.codes[name][again.largest(len(lost))]
    return codes, train, name


def _same_size(i: int, sides: tuple[list[Source], list[Source]]) -> bool:
    """Return whether a released image has the size of its original."""
    old, new = (read_pixels(side[i]).shape for side in sides)
    return old == new


def _as_rows(sources: Sequence[Source]) -> FloatArray:
    """Return images of one size as rows of numbers."""
    images = [read_pixels(source) for source in sources]
    if len({image.shape for image in images}) > 1:
        raise UsageError(
            "No face was found in any image, and they differ in size, so they cannot be compared."
            " Give photos that show faces, or codes (n, d)."
        )
    return np.stack(images).reshape(len(images), -1).astype(np.float64)
