"""ANALYSE and IDENTIFY: from photos and videos to faces, subjects, strata and tracks."""
