"""Pictures of recorded results; nothing here is imported but by the `plot_*` stages."""
