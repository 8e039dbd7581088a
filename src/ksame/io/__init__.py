"""Read photos and videos of any kind; write files without metadata.

Photos are read by Pillow, upright and in sRGB (docs/decisions/0001), videos frame by frame by PyAV, with
their own clock. A folder is written completely or not at all (docs/decisions/0002).
"""

from ksame.core.folders import publish_folder
from ksame.io.audio import audio_hashes
from ksame.io.clip import Clip, ClipFrame
from ksame.io.metadata import metadata_of
from ksame.io.photos import decode, encode, encode_png, read_photo, read_preview
from ksame.io.sources import (
    PHOTO_SUFFIXES,
    VIDEO_SUFFIXES,
    FoundFile,
    find_photos,
    find_videos,
    skipped_files,
)
from ksame.io.video import probe_video, read_frames
from ksame.io.video_metadata import metadata_of_video
from ksame.io.video_seek import read_frames_at
from ksame.io.video_write import WrittenVideo, write_video

__all__ = [
    "PHOTO_SUFFIXES",
    "VIDEO_SUFFIXES",
    "Clip",
    "ClipFrame",
    "FoundFile",
    "WrittenVideo",
    "audio_hashes",
    "decode",
    "encode",
    "encode_png",
    "find_photos",
    "find_videos",
    "metadata_of",
    "metadata_of_video",
    "probe_video",
    "publish_folder",
    "read_frames",
    "read_frames_at",
    "read_photo",
    "read_preview",
    "skipped_files",
    "write_video",
]
