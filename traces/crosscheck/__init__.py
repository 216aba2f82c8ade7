"""Comparison of whole state spaces with those of TLC."""
