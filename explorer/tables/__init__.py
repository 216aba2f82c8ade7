"""The table engine: handlers learned as integer tables, states explored as rows of ids by a compiled kernel."""
