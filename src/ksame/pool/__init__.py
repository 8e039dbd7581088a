"""Synthetic identities: the parameter GAN [S 8] and the pool of faces that give a shift its direction."""

from __future__ import annotations

from ksame.pool.build import Pool, build
from ksame.pool.generator import Generator

__all__ = ["Generator", "Pool", "build"]
