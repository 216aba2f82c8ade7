"""What the readers of several formats share: lines, documents, states, values."""
