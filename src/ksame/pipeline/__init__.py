"""The pipeline: analyse, identify, plan, render, publish. ``run`` is the only driver."""

from ksame.pipeline.photos import OUTPUTS, Output, Photos, Portraits, Scenes
from ksame.pipeline.run import (
    Medium,
    default_method,
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
    "default_method",
    "deidentify",
    "find_media",
    "find_method",
    "prepare",
    "release_of",
    "route",
    "run",
]
