"""Eigenfaces [N fig. 7-8]: the coordinates of a face on the leading axes of variation of a set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from ksame.core.arrays import FloatArray
from ksame.core.errors import UsageError
from ksame.core.faces import FaceSet
from ksame.spaces.pixel import PixelSpace


def principal_components(x: FloatArray, *, keep: int | float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return mean Psi (N,), axes V (m, N) and variances lambda (m,) of rows x (M, N), largest first.

    Parameters
    ----------
    x : (M, N) array
        One face per row.
    keep : int or float
        The number of axes, or the fraction of variance that they explain, in (0, 1].

    Notes
    -----
    With fewer faces than pixels the eigenvectors of the M x M matrix A A^T give those of the
    N x N covariance [N fig. 7]; both give the same axes. The sign of an eigenvector is arbitrary:
    its largest entry is made positive, so that the same set gives the same codes.

    Examples
    --------
    >>> psi, v, variance = principal_components(np.array([[0.0, 0], [2, 2], [4, 4]]), keep=0.99)
    >>> psi.tolist(), v.round(3).tolist(), variance.round(3).tolist()
    ([2.0, 2.0], [[0.707, 0.707]], [8.0])
    """
    count = isinstance(keep, int)
    if (count and keep < 1) or (not count and not 0 < keep <= 1):
        raise UsageError(f"keep must be a count of at least 1 or a fraction in (0, 1]. Got {keep!r}.")
    m_faces, n_pixels = x.shape
    psi = x.mean(axis=0, dtype=np.float64).astype(x.dtype)
    a = x - psi  # (M, N): differences Phi_i
    small = m_faces < n_pixels
    inner = (a @ a.T if small else a.T @ a).astype(np.float64)
    values, vectors = (part[..., ::-1] for part in eigh(inner))
    # directions below rounding error are noise
    rank = int((values > max(m_faces, n_pixels) * np.finfo(x.dtype).eps * max(values[0], 0)).sum())
    if count:
        m = min(int(keep), rank)
    else:  # the small margin keeps a fraction of 1.0 from requesting more axes than exist
        share = np.cumsum(values[:rank]) / values[:rank].sum() if rank else np.zeros(0)
        m = min(int(np.searchsorted(share, keep - 1e-12)) + 1, rank)
    if small:
        v = (vectors[:, :m].T.astype(x.dtype) @ a) / np.sqrt(values[:m, None]).astype(x.dtype)  # (m, N)
    else:
        v = vectors[:, :m].T.astype(x.dtype)
    v *= np.sign(v[np.arange(m), np.abs(v).argmax(axis=1)])[:, None]
    return psi, v, values[:m] / max(m_faces - 1, 1)


@dataclass(frozen=True, eq=False)
class EigenSpace:
    """Eigenfaces over the registered pixels: Omega = V^T (Gamma - Psi) [N fig. 8].

    Parameters
    ----------
    pixel : PixelSpace
        The pixel space that is projected.
    mean, axes, variance : arrays
        Psi (N,), V (m, N), lambda (m,).
    """

    pixel: PixelSpace
    mean: FloatArray
    axes: FloatArray
    variance: FloatArray

    @classmethod
    def fit(cls, faces: FaceSet, *, keep: int | float = 0.95) -> Self:
        """Learn the axes from a set of faces; keep a number of them or a fraction of variance."""
        pixel = PixelSpace.fit(faces)
        return cls(pixel, *principal_components(pixel.encode(faces), keep=keep))

    def encode(self, faces: FaceSet) -> FloatArray:
        """Return Omega, (n, m)."""
        return self.project(self.pixel.encode(faces))

    def project(self, x: FloatArray) -> FloatArray:
        """Return the coordinates (n, m) of pixel vectors x (n, N)."""
        omega: FloatArray = ((x - self.mean) @ self.axes.T).astype(np.float64)
        return omega

    def decode(self, codes: FloatArray) -> NDArray[np.uint8]:
        """Return the images (n, h, w, 3) of the faces Psi + V Omega."""
        return self.pixel.decode(self.mean + codes.astype(self.axes.dtype) @ self.axes)
