"""Honest comparison as a pure library over tables: no files, no torch; one file a method."""
