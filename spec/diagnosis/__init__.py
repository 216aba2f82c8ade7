"""Why an action is not enabled."""
