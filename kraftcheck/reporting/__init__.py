"""Rendering of results: text, JSON, report pages, and formats for CI."""
