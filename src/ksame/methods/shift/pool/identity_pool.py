"""The identity pool: synthetic identities, each with a de-identified counterpart [S 7.3, 8.3.4]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, Self

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray, IntArray
from ksame.core.errors import UsageError
from ksame.core.geometry import FRAME
from ksame.methods.shift.pool.code_generator import array_digest, read_arrays
from ksame.models.recognisers import RECOGNISERS, embed


@dataclass(frozen=True, eq=False)
class Pool:
    """Neutral, frontal synthetic faces, each with its counterpart after k-Diff-furthest.

    Parameters
    ----------
    codes : (m, d)
        gamma_hat: components of light and pose are 0.
    deidentified : (m, d)
        gamma_hat_d, computed once by k-Diff-furthest over the whole pool.
    labels : (m, 3)
        Conditions of each face: male, young, smiling, in [-1, 1].
    k : int
        Greatest number of faces in a cluster.
    space : str
        Digest of the appearance model of the codes.
    checked : str
        One sentence on what the faces were compared with.
    images : tuple of bytes
        An image file of each face, on the model's mean shape in the canonical frame; or none. Such a face is
        used as it is, so that its two codes are equal.
    licence : str
        One sentence on what the faces may not be used for, if anything.
    seen : mapping of str to (m, e)
        Recognisers' embeddings of the images: see ``with_embeddings``.
    """

    codes: FloatArray
    deidentified: FloatArray
    labels: FloatArray
    k: int
    space: str
    checked: str
    images: tuple[bytes, ...] = ()
    licence: str = ""
    seen: Mapping[str, FloatArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check that the arrays are parallel and make them read-only."""
        m = len(self.codes)
        if self.codes.ndim != 2 or self.codes.shape != self.deidentified.shape or len(self.labels) != m:
            shapes = [a.shape for a in (self.codes, self.deidentified, self.labels)]
            raise UsageError(f"A pool needs two codes and the labels of each face. Got {shapes}.")
        if len(self.images) not in (0, m):
            raise UsageError(f"A pool needs an image of each face, or none. Got {len(self.images)} of {m}.")
        if any(len(codes) != m for codes in self.seen.values()):
            raise UsageError("A pool needs each recogniser's embeddings of all faces, or none.")
        for array in (self.codes, self.deidentified, self.labels):
            array.flags.writeable = False

    def __len__(self) -> int:
        """Return the number of identities."""
        return len(self.codes)

    @property
    def shifts(self) -> FloatArray:
        """The identity shifts gamma_hat_d - gamma_hat, (m, d) [S 7.4]."""
        return self.deidentified - self.codes

    @cached_property
    def digest(self) -> str:
        """The sha256 of the pool's arrays, which identifies it in a certificate."""
        return array_digest(self._arrays())

    def nearest(self, code: FloatArray, nuisance: NDArray[np.bool_] | None = None) -> IntArray:
        """Return all rows, ordered from the nearest to a code (d,).

        Parameters
        ----------
        code : (d,)
            A person's code.
        nuisance : (d,) bool, optional
            Components of light and pose, which are first set to 0 [S 7.3.2].

        Examples
        --------
        >>> pool = Pool(np.eye(3), -np.eye(3), np.zeros((3, 3)), 2, "", "")
        >>> pool.nearest(np.array([9.0, 0.2, 0.3]), np.array([True, False, False])).tolist()
        [2, 1, 0]
        """
        plain = code if nuisance is None else np.where(nuisance, 0.0, code)
        return np.argsort(((self.codes - plain) ** 2).sum(axis=1), kind="stable")

    def image(self, row: int) -> NDArray[np.uint8] | None:
        """Return the image (h, w, 3) of a face on the mean shape; None in a pool of codes only."""
        if not self.images:
            return None
        stored = cv2.imdecode(np.frombuffer(self.images[row], np.uint8), cv2.IMREAD_COLOR_RGB)
        if stored is None or stored.shape[:2] != FRAME.size(1)[::-1]:
            raise UsageError(f"Image {row} of the pool is damaged: build the pool again (ksame pool build).")
        return np.asarray(stored, np.uint8)

    def with_embeddings(self, recognisers: Sequence[str], shape: FloatArray) -> Self:
        """Return the pool with recognisers' embeddings of its images.

        They tell which faces are dissimilar to a person before any is drawn. ``shape`` (468, 2) is the mean
        shape of the appearance model.
        """

        def codes(name: str) -> FloatArray:
            faces = [
                embed(name, face, shape[None])
                for face in map(self.image, range(len(self)))
                if face is not None
            ]
            return np.concatenate(faces).astype(np.float64)

        return replace(self, seen={name: codes(name) for name in recognisers} if self.images else {})

    def _arrays(self) -> dict[str, NDArray[Any]]:
        columns = {name: getattr(self, name).astype(np.float32) for name in _CODE_ARRAYS}
        columns |= {name: np.array(getattr(self, name)) for name in ("k", "space", "checked")}
        if self.images:
            columns["pictures"] = np.frombuffer(b"".join(self.images), np.uint8)
            columns["ends"] = np.cumsum([len(one) for one in self.images])
            columns["licence"] = np.array(self.licence)
        return columns | {
            _EMBEDDING_PREFIX + name: codes.astype(np.float16) for name, codes in self.seen.items()
        }

    def save(self, path: str | Path) -> None:
        """Write the pool as npz without pickle, in single precision."""
        np.savez_compressed(path, allow_pickle=False, **self._arrays())

    @classmethod
    def bundled(cls, *, codes: bool = False) -> Self:
        """Return the bundled pool; its card is models/data/README.md.

        This is the pool with images, unless ``codes`` requests the other or the file was removed from this
        copy because of its licence.
        """
        models = resources.files("ksame") / "models" / "data"
        name = "pool.npz" if codes or not (models / "people.npz").is_file() else "people.npz"
        with resources.as_file(models / name) as path:
            return cls.load(path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a pool; raise UsageError if the file is not one."""
        file = read_arrays(
            path,
            [*_CODE_ARRAYS, "k", "space", "checked"],
            "a pool of identities",
            features=[*_IMAGE_ARRAYS, *(_EMBEDDING_PREFIX + name for name in RECOGNISERS)],
        )
        columns = {name: file[name].astype(np.float64) for name in _CODE_ARRAYS}
        joined, ends = (file.get(name, np.zeros(0, np.uint8)) for name in _IMAGE_ARRAYS[:2])
        return cls(
            **columns,
            k=int(file["k"]),
            space=str(file["space"]),
            checked=str(file["checked"]),
            images=tuple(part.tobytes() for part in np.split(joined, ends)[:-1]),
            licence=str(file.get("licence", "")),
            seen={
                name.removeprefix(_EMBEDDING_PREFIX): codes.astype(np.float64)
                for name, codes in file.items()
                if name.startswith(_EMBEDDING_PREFIX)
            },
        )


_EMBEDDING_PREFIX = "seen by "
_IMAGE_ARRAYS = ("pictures", "ends", "licence")
_CODE_ARRAYS = ("codes", "deidentified", "labels")
