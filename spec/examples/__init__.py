"""Small complete example protocols."""
