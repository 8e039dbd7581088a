"""Errors, with the exit code of the command line.

::

    KSameError                 1   anything that went wrong here
    |-- UsageError             2   an option or argument makes no sense
    |-- GuaranteeError         3
    |   |-- CannotGuarantee        k cannot be met by these people
    |   `-- GuaranteeViolated      a claim was checked and is not true
    |-- InputError             4   a photo cannot be read or has no face
    |-- ResidualFace           5   a face is still untouched in what was written
    `-- WeightsError           1   a model file is missing and cannot be fetched
"""

from __future__ import annotations

from typing import NamedTuple


class KSameError(Exception):
    """Anything that went wrong here; the message is one sentence that says what to do."""

    exit_code = 1


class UsageError(KSameError, ValueError):
    """An option or argument makes no sense."""

    exit_code = 2


class GuaranteeError(KSameError, ValueError):
    """A promise cannot be given, or was given and is not true."""

    exit_code = 3


class CannotGuarantee(GuaranteeError):
    """k cannot be met by these people."""


class GuaranteeViolated(GuaranteeError):
    """A claim was checked and is not true."""


class InputError(KSameError):
    """A photo cannot be read or has no face."""

    exit_code = 4


class ResidualFace(KSameError):
    """A face is still untouched in what was written."""

    exit_code = 5


class WeightsError(KSameError):
    """A model file is missing and cannot be fetched."""


class Failure(NamedTuple):
    """One line of failures.csv: an input for which nothing was published, and why."""

    input: str
    reason: str


class Faceless(NamedTuple):
    """One line of faceless.csv: a photo that was published although nobody in it was replaced."""

    input: str
    output: str
    covered: int  # faces that were covered; 0 where no detector saw any
