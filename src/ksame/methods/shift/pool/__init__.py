"""Synthetic identities: the parameter GAN [S 8] and the pool of faces that defines the shifts."""

from __future__ import annotations

from ksame.methods.shift.pool.build import make_pool
from ksame.methods.shift.pool.code_generator import CodeGenerator
from ksame.methods.shift.pool.identity_pool import Pool

__all__ = ["CodeGenerator", "Pool", "make_pool"]
