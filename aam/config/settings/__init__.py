"""What stages get of the configuration: frozen models, which `aam.config.slices` fills."""
