"""Store meshes in a temporary file: an hour of one face takes 170 MB, and few are needed at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from threading import Lock
from typing import Any
from weakref import finalize

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ksame.core.geometry import MESH

__all__ = ["MeshStore", "Meshes", "StoredMeshes", "iterate_chunks"]

IN_MEMORY_BYTES = 1 << 24  # six minutes of one face
CHUNK_FRAMES = 512  # frames whose meshes are read at a time


class MeshStore:
    """Append-only storage of meshes in memory, or in an unnamed file above ``IN_MEMORY_BYTES``.

    The file disappears with the process, however that ends.

    Examples
    --------
    >>> store = MeshStore()
    >>> store.put(np.ones((2, 468, 2), np.int16)), store.put(np.full((468, 2), 7, np.int16))
    (0, 2)
    >>> store.of([2, -1, 0])[:][:, 0, 0].tolist()
    [7, 0, 1]
    """

    def __init__(self, in_memory: int = IN_MEMORY_BYTES) -> None:
        self._file = SpooledTemporaryFile(max_size=in_memory)  # noqa: SIM115 - closed by finalize
        finalize(self, self._file.close)
        self._lock = Lock()  # several threads read
        self._count = 0

    def put(self, meshes: NDArray[np.int16]) -> int:
        """Append meshes (..., 468, 2) and return the row of the first."""
        with self._lock:
            first, self._count = self._count, self._count + meshes.size // (2 * MESH)
            self._file.seek(0, 2)
            self._file.write(np.ascontiguousarray(meshes, np.int16).tobytes())
        return first

    def of(self, rows: ArrayLike) -> StoredMeshes:
        """Return a view of some rows in order; -1 is a mesh of zeros."""
        return StoredMeshes(self, np.asarray(rows, np.intp))

    def take(self, rows: NDArray[np.intp]) -> NDArray[np.int16]:
        """Read the meshes (n, 468, 2) of rows (n,)."""
        meshes = np.zeros((len(rows), MESH, 2), np.int16)
        there = np.flatnonzero(rows >= 0)
        with self._lock:
            for run in np.split(there, 1 + np.flatnonzero(np.diff(rows[there]) != 1)):
                if len(run):  # consecutive rows are read at once
                    self._file.seek(int(rows[run[0]]) * meshes[0].nbytes)
                    data = self._file.read(len(run) * meshes[0].nbytes)
                    meshes[run] = np.frombuffer(data, np.int16).reshape(-1, MESH, 2)
        return meshes


@dataclass(frozen=True, eq=False)
class StoredMeshes:
    """An array-like view of meshes in a store, read on indexing."""

    store: MeshStore
    rows: NDArray[np.intp]

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape (n, 468, 2)."""
        return len(self.rows), MESH, 2

    def __len__(self) -> int:
        """Return the number of meshes."""
        return len(self.rows)

    def __getitem__(self, which: Any) -> NDArray[np.int16]:
        """Read one mesh, or those of a slice, mask or index array."""
        rows = self.rows[which]
        return self.store.take(rows) if np.ndim(rows) else self.store.take(rows[None])[0]


Meshes = NDArray[np.int16] | StoredMeshes
"""Meshes (n, 468, 2) relative to their boxes, as ``propagate.pack_meshes`` makes them."""


def iterate_chunks(meshes: Meshes) -> Iterator[NDArray[np.int16]]:
    """Yield meshes in order, ``CHUNK_FRAMES`` at a time."""
    for begin in range(0, len(meshes), CHUNK_FRAMES):
        yield meshes[begin : begin + CHUNK_FRAMES]
