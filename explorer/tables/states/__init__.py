"""Storage of states: the visited set, the levels of a search, and their memory budget."""
