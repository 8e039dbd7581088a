"""Attacks on a release: what recognisers make of it. An attacker sees pictures, and knows the method."""
