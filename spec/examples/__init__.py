"""Small complete protocols, to learn the language from."""
