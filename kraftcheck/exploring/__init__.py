"""The command `kraftcheck explore`: a step-by-step walk through a protocol in the browser."""
