"""A protocol walked through step by step, in a browser on this machine (`kraftcheck explore`)."""
