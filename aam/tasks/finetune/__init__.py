"""Fine-tuning: cross-validated models of one target."""
