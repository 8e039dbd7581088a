"""What may leave the machine, and the certificate by which anyone can check it.

A release folder holds the published files and ``certificate.json``; the mapping from people to
files goes to a private folder beside it and nowhere else. ``verify`` believes nothing that the
files themselves do not show: it recomputes every figure of the certificate that can be recomputed.
"""

from ksame.core.errors import Faceless, Failure
from ksame.release.private import (
    PRIVATE_FILES,
    MakingNotes,
    MappingRow,
    Private,
    PrivateFolder,
    ResidualRecord,
    read_private,
)
from ksame.release.verify import REPORT_FILE, Verification, as_written, method_name, read_manifest, verify
from ksame.release.writer import (
    CERTIFICATE,
    MANIFEST,
    SOFTWARE,
    DeferredFile,
    Release,
    check_folders,
    clear_unfinished,
    open_folders,
)

__all__ = [
    "CERTIFICATE",
    "MANIFEST",
    "PRIVATE_FILES",
    "REPORT_FILE",
    "SOFTWARE",
    "DeferredFile",
    "Faceless",
    "Failure",
    "MakingNotes",
    "MappingRow",
    "Private",
    "PrivateFolder",
    "Release",
    "ResidualRecord",
    "Verification",
    "as_written",
    "check_folders",
    "clear_unfinished",
    "method_name",
    "open_folders",
    "read_manifest",
    "read_private",
    "verify",
]
