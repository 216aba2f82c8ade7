"""Replays many traces on Spark, into tables of Parquet."""
