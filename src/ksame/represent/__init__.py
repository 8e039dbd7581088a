"""From faces to codes (n, d) and back."""
