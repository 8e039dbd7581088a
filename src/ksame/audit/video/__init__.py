"""The audit of videos."""
