"""The search strategies of the table engine, one file a strategy."""
