"""The KRaft protocols, one module each, with their bounded configurations beside them."""
