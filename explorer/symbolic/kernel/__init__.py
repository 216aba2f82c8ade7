"""Compiled code of the symbolic engine: diagrams in arrays, without knowledge of protocols or imports from above."""
