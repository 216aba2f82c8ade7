"""The formats of trace files, one a file: recognised, read, and where it can be written. `TraceFormat` finds them."""
