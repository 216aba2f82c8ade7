"""The formats of trace files, one module each: detection, reading and, for some, writing."""
