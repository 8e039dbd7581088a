"""Drivers: from inputs to a release, for photos, ad hoc methods, open sets and videos."""
