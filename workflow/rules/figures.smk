"""Draw what the other rules recorded, so that no figure ever costs a training run: a rule per line of `aam.config.figures`.

Inputs: `rarefied/curve.tsv`, the records of pretraining, fine-tuning and explanation, `answers/`, what each method predicts, `benchmark/*.tsv`.
Outputs: `figures/`.
"""


def job_of(plot):
    """Return the path that the log of a job that draws figures has below `logs`."""
    return "/".join(
        [f"plot_{plot}", *(f"{{{name}}}" for name in PLOTS[plot].wildcards)]
    )


def figure_settings(name, wildcards):
    """Return what draws the figures of a rule, and what they depend on besides files."""
    return PLOTS[name].fill_settings(CONFIG, wildcards.dataset).plain()


for name, plot in PLOTS.items():

    rule:
        name:
            f"plot_{name}"
        input:
            *([unpack(method_predictions)] if plot.methods else []),
            **{key: result(path) for key, path in plot.inputs.items()},
        output:
            **{
                figure.name: report(
                    result(f"figures/{figure.path_stem}.svg"),
                    caption=f"../report/{figure.caption}.rst",
                    category=plot.category,
                    labels={
                        **{key: f"{{{key}}}" for key in ["dataset", *plot.wildcards]},
                        "content": figure.title,
                    },
                )
                for figure in plot.figures
            },
        log:
            result(f"logs/{job_of(name)}.log"),
        benchmark:
            result(f"benchmarks/{job_of(name)}.tsv")
        priority: FIRST_ANSWER_PRIORITY if plot.shown == "answers" else 0
        localrule: True
        conda:
            ENVIRONMENT
        threads: 1
        resources:
            mem_mb=4000,
            runtime=60,
        params:
            settings=partial(figure_settings, name),
            code=script_digest("plot", *plot.modules),
        message:
            f"Drawing {plot.describe(MODEL)}"
        script:
            "../scripts/plot.py"
