"""The audit: attack a release, measure what is left, and report. ``ksame.audit(...)`` runs it."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _CallableModule(ModuleType):
    """The package and the public function have one name: calling the package runs the audit."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        from ksame.audit.run import audit  # here: it brings everything that the package holds

        return audit(*args, **options)


sys.modules[__name__].__class__ = _CallableModule
