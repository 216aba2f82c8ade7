"""Makes a corpus of random walks on Spark."""
