"""Says why an action is not enabled in a state."""
