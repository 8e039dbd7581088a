"""The pipeline: analyse, identify, plan, render, publish. ``run`` is the only driver."""

from ksame.pipeline.outputs import OUTPUTS, Output, Portraits, Scenes
from ksame.pipeline.photos import Photos
from ksame.pipeline.run import (
    Medium,
    deidentify,
    find_media,
    find_method,
    prepare,
    release_of,
    route,
    run,
)
from ksame.pipeline.videos import Videos

__all__ = [
    "OUTPUTS",
    "Medium",
    "Output",
    "Photos",
    "Portraits",
    "Scenes",
    "Videos",
    "deidentify",
    "find_media",
    "find_method",
    "prepare",
    "release_of",
    "route",
    "run",
]
