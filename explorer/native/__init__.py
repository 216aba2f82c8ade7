"""What every compiled kernel stands on: how functions are compiled and cached, and arrays shared with Python."""
