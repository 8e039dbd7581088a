"""Photos in, files out: whatever people's folders hold is read, what is written carries nothing extra.

Reading is by Pillow, upright and in sRGB (docs/decisions/0001). Writing drops every metadata block, and
a folder appears whole or not at all (docs/decisions/0002).
"""

from ksame.media._find import SUFFIXES, Photo, find, skipped
from ksame.media._metadata import metadata_of
from ksame.media._read import preview, read
from ksame.media._write import decode, encode, encode_png, publish

__all__ = [
    "SUFFIXES",
    "Photo",
    "decode",
    "encode",
    "encode_png",
    "find",
    "metadata_of",
    "preview",
    "publish",
    "read",
    "skipped",
]
