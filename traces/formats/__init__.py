"""The formats of traces, one file a format."""
