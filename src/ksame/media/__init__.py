"""Photos and videos in, files out: what people's folders hold is read, what is written has nothing extra.

Photos are read by Pillow, upright and in sRGB (docs/decisions/0001); videos by PyAV, picture by picture,
with their own clock. Writing drops every metadata block, and
a folder appears whole or not at all (docs/decisions/0002).
"""

from ksame.media._find import SUFFIXES, VIDEOS, Photo, find, find_videos, skipped
from ksame.media._metadata import metadata_of
from ksame.media._read import preview, read
from ksame.media._sound import sound_hashes
from ksame.media._video import Clip, Frame, frames, probe
from ksame.media._video_metadata import metadata_of_video
from ksame.media._video_pick import picked
from ksame.media._video_write import Written, write_video
from ksame.media._write import clear_partial, decode, encode, encode_png, publish

__all__ = [
    "SUFFIXES",
    "VIDEOS",
    "Clip",
    "Frame",
    "Photo",
    "Written",
    "clear_partial",
    "decode",
    "encode",
    "encode_png",
    "find",
    "find_videos",
    "frames",
    "metadata_of",
    "metadata_of_video",
    "picked",
    "preview",
    "probe",
    "publish",
    "read",
    "skipped",
    "sound_hashes",
    "write_video",
]
