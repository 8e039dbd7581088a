"""From a photo to faces: detection, landmarks, who is who."""
