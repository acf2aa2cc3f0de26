"""Masking of caption words and image regions, as diagnosis asks for it."""
