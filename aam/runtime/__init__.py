"""How a stage is run."""
