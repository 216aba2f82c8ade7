"""What runs protocols: the reference engine and the others that must agree with it."""
