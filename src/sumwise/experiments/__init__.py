"""Runs on real data that show, or check, what the library does."""
