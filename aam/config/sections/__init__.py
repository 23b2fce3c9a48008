"""One module per group of sections of the configuration."""
