"""One module per stage of the workflow, each with a run function."""
