"""Errors, with the exit code of the command line.

::

    KSameError                 1   any failure of ksame
    |-- UsageError             2   an invalid option or argument
    |-- GuaranteeError         3
    |   |-- CannotGuarantee        k cannot be reached with these people
    |   `-- GuaranteeViolated      a claim was checked and does not hold
    |-- InputError             4   an input cannot be read or has no face
    |-- ResidualFace           5   an original face was detected in the output
    `-- WeightsError           1   a model file is missing and cannot be fetched
"""

from __future__ import annotations

from typing import NamedTuple


class KSameError(Exception):
    """Any failure of ksame; the message is one sentence: what is wrong and what to do."""

    exit_code = 1


class UsageError(KSameError, ValueError):
    """An option or argument is invalid."""

    exit_code = 2


class GuaranteeError(KSameError, ValueError):
    """A guarantee cannot be given, or does not hold."""

    exit_code = 3


class CannotGuarantee(GuaranteeError):
    """k cannot be reached with these people."""


class GuaranteeViolated(GuaranteeError):
    """A claim was checked and does not hold."""


class InputError(KSameError):
    """An input cannot be read or has no face."""

    exit_code = 4


class ResidualFace(KSameError):
    """An original face was detected in the output."""

    exit_code = 5


class WeightsError(KSameError):
    """A model file is missing and cannot be fetched."""


class Failure(NamedTuple):
    """A row of failures.csv: an input for which nothing was published, and why."""

    input: str
    reason: str


class Faceless(NamedTuple):
    """A row of faceless.csv: a photo that was published without any face replaced."""

    input: str
    output: str
    covered: int  # number of covered faces; 0 where no detector found any
