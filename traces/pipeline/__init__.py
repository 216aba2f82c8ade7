"""Replay of many traces on Spark, with results in Parquet tables."""
