"""Resolution of cache misses: fills the tables between two runs of the kernel."""
