"""The workflow, which is in `workflow/Snakefile`, for a plain `snakemake` in this folder."""


include: "workflow/Snakefile"


# An included file cannot say what is made when no target is named.
workflow.default_target = "all"
