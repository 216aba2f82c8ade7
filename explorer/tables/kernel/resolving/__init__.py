"""Makes what is missing in the tables, between batches."""
