"""What may leave the machine, and the certificate by which anyone can check it.

A release folder holds the published files and ``certificate.json``; the mapping from people to
files goes to a private folder beside it and nowhere else. ``verify`` believes nothing that the
files themselves do not show: it recomputes every figure of the certificate that can be recomputed.
"""

from ksame.release._make import (
    CERTIFICATE,
    SOFTWARE,
    Made,
    Release,
    as_written,
    check_folders,
    clear_unfinished,
)
from ksame.release._private import (
    PRIVATE,
    Faceless,
    Failure,
    Making,
    Private,
    Row,
    Untouched,
    read_faceless,
    read_failures,
    read_private,
    read_untouched,
)
from ksame.release._verify import REPORT, Verification, verify

__all__ = [
    "CERTIFICATE",
    "PRIVATE",
    "REPORT",
    "SOFTWARE",
    "Faceless",
    "Failure",
    "Made",
    "Making",
    "Private",
    "Release",
    "Row",
    "Untouched",
    "Verification",
    "as_written",
    "check_folders",
    "clear_unfinished",
    "read_faceless",
    "read_failures",
    "read_private",
    "read_untouched",
    "verify",
]
