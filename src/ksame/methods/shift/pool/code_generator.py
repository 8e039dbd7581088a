"""A trained parameter GAN [S 8] in numpy: sample appearance codes of synthetic identities."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, Self
from zipfile import BadZipFile

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ksame.core.arrays import FloatArray, RandomState
from ksame.core.errors import UsageError
from ksame.methods.shift.pool.gan import Net

CODE_SCALE = 5.0  # a of (8.7): scales most codes to [-1, 1]
CONDITIONS = ("male", "young", "smiling")


@dataclass(frozen=True, eq=False)
class CodeGenerator:
    """A generator of codes and the discriminator that scores them.

    Parameters
    ----------
    generator_net, discriminator_net : Net
        G(z, c) and D(x, c), or D(x) where conditions were learnt by an auxiliary loss.
    scale : (d,)
        Factor from the networks' x to codes: a times the deviation of each component [S 8.7].
    space : str
        Digest of the appearance model of the codes.
    """

    generator_net: Net
    discriminator_net: Net
    scale: FloatArray
    space: str

    def __post_init__(self) -> None:
        """Check that the networks match."""
        d, q = len(self.scale), len(CONDITIONS)
        if (
            self.generator_net.v.shape[1] != d
            or self.noise < 1
            or self.discriminator_net.w.shape[0] not in (d, d + q)
        ):
            raise UsageError(f"These networks do not generate codes with {d} components.")

    @property
    def noise(self) -> int:
        """The length of z."""
        return int(self.generator_net.w.shape[0]) - len(CONDITIONS)

    @cached_property
    def digest(self) -> str:
        """The sha256 of the networks' arrays."""
        return array_digest(self._arrays())

    def sample(
        self,
        n: int,
        rng: RandomState = None,
        *,
        male: ArrayLike | None = None,
        young: ArrayLike | None = None,
        smiling: ArrayLike | None = None,
    ) -> FloatArray:
        """Sample the codes (n, d) of n synthetic faces.

        Parameters
        ----------
        n : int
            Number of faces.
        rng : int, Generator or None
            None draws from the operating system.
        male, young, smiling : float or (n,), optional
            Conditions in [-1, 1]; by default drawn at random.

        Examples
        --------
        >>> CodeGenerator.bundled().sample(3, rng=0, smiling=-0.9).shape
        (3, 84)
        """
        source = np.random.default_rng(rng)
        z = source.uniform(-1, 1, (n, self.noise))
        return self.decode(z, sample_conditions(n, source, male, young, smiling))

    def decode(self, z: FloatArray, c: FloatArray) -> FloatArray:
        """Return the codes (n, d) of noise (n, i) and conditions (n, 3)."""
        codes: FloatArray = self.generator_net(np.hstack([z, c])) * self.scale
        return codes

    def score(self, codes: FloatArray, c: FloatArray) -> FloatArray:
        """Return the discriminator's scores (n,) of codes (n, d); the scale depends on the loss."""
        x = codes / self.scale
        seen = x if self.discriminator_net.w.shape[0] == len(self.scale) else np.hstack([x, c])
        score: FloatArray = self.discriminator_net(seen)[:, 0]
        return score

    def discriminator_rank(
        self, codes: FloatArray, c: FloatArray, rng: np.random.Generator, *, others: int = 64
    ) -> FloatArray:
        """Return the share (n,) of other faces sampled for the same conditions that score lower.

        A Wasserstein critic's value has no absolute zero and differs between women and men: faces are
        comparable only within the same conditions.
        """
        again = np.repeat(c, others, axis=0)
        z = rng.uniform(-1, 1, (len(again), self.noise))
        rivals = self.score(self.decode(z, again), again).reshape(len(codes), others)
        share: FloatArray = (rivals < self.score(codes, c)[:, None]).mean(axis=1)
        return share

    def _arrays(self) -> dict[str, NDArray[Any]]:
        nets = {"makes": self.generator_net, "judges": self.discriminator_net}
        parts = {
            f"{name}_{part}": getattr(net, part).astype(np.float32)
            for name, net in nets.items()
            for part in Net._fields
        }
        return {**parts, "scale": self.scale.astype(np.float64), "space": np.array(self.space)}

    def save(self, path: str | Path) -> None:
        """Write the networks as npz without pickle, in single precision."""
        np.savez_compressed(path, allow_pickle=False, **self._arrays())

    @classmethod
    def bundled(cls) -> Self:
        """Return the bundled generator; its card is models/data/README.md."""
        with resources.as_file(resources.files("ksame") / "models" / "data" / "generator.npz") as path:
            return cls.load(path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a generator; raise UsageError if the file is not one."""
        names = [f"{net}_{part}" for net in ("makes", "judges") for part in Net._fields]
        file = read_arrays(path, [*names, "scale", "space"], "a generator of faces")
        makes, judges = (Net(*(file[f"{net}_{part}"] for part in Net._fields)) for net in ("makes", "judges"))
        return cls(makes, judges, file["scale"], str(file["space"]))


def sample_conditions(
    n: int,
    rng: np.random.Generator,
    male: ArrayLike | None = None,
    young: ArrayLike | None = None,
    smiling: ArrayLike | None = None,
) -> FloatArray:
    """Return the given conditions (n, 3); those not given are uniform in [-1, 1]."""
    columns = []
    for name, value in zip(CONDITIONS, (male, young, smiling), strict=True):
        column = rng.uniform(-1, 1, n) if value is None else np.asarray(value, dtype=np.float64)
        if column.shape not in ((), (n,)) or not (np.abs(column) <= 1).all():
            raise UsageError(f"{name} must be one number in [-1, 1], or {n} of them. Got {value}.")
        columns.append(np.broadcast_to(column, n))
    return np.stack(columns, axis=1)


def read_arrays(
    path: str | Path, names: list[str], what: str, *, features: Sequence[str] = ()
) -> dict[str, NDArray[Any]]:
    """Return the named arrays of a file and those of ``features`` that it has; raise UsageError if absent."""
    try:
        with Path(path).open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            return {name: file[name] for name in [*names, *(name for name in features if name in file)]}
    except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
        raise UsageError(f"{path} is not {what}: {error}.") from None


def array_digest(parts: dict[str, NDArray[Any]]) -> str:
    """Return the sha256 of arrays, in the order of their names."""
    total = hashlib.sha256()
    for name in sorted(parts):
        total.update(np.ascontiguousarray(parts[name]).tobytes())
    return total.hexdigest()
