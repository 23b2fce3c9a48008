"""How time and memory of every stage grow, from simulated studies of several sizes; made when asked for by name.

Inputs: `logs/` of all jobs on all simulated datasets.
Outputs: `growth/growth.tsv`, `fits.tsv`, `growth.md`, `figures/growth.png`, below the folder of results.
"""

GROWN = [name for name, section in CONFIG.datasets.items() if section.simulate]
GROWN_JOBS = [
    (dataset, job)
    for dataset in GROWN
    for job in (
        "simulate",
        "import_table",
        "import_tree",
        "import_metadata",
        "rarefaction_curve",
        "rarefy/view0",
        "tokenize",
        "unifrac/unweighted/view0",
        "augment",
        f"pretrain/{first_model()}",
        "plot_rarefaction",
        f"plot_pretraining/{first_model()}",
        *(
            f"{job}/{task}"
            for task in tasks_of(dataset)
            for job in (
                f"finetune/{first_model()}",
                f"explain/{first_model()}",
                f"score/{first_model()}",
                f"plot_task/{first_model()}",
            )
        ),
        *(
            f"folds/{name}"
            for name in dict.fromkeys(map(folds_owner, tasks_of(dataset)))
        ),
        *(
            f"baselines/{name}"
            for name in dict.fromkeys(map(baselines_owner, tasks_of(dataset)))
        ),
    )
]


localrules:
    growth,
    plot_growth,


rule growth:
    input:
        logs=[result(f"logs/{job}.log", dataset=dataset) for dataset, job in GROWN_JOBS],
    output:
        table=result("growth.tsv", dataset="growth"),
        fits=result("fits.tsv", dataset="growth"),
        text=result("growth.md", dataset="growth"),
    log:
        result("logs/growth.log", dataset="growth"),
    benchmark:
        result("benchmarks/growth.tsv", dataset="growth")
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        cfg=slices.growth(CONFIG),
        code=code_digest("aam.stages.benchmark_growth"),
    message:
        "Gathering how the stages grow"
    script:
        "../scripts/run_stage.py"


rule plot_growth:
    input:
        growth=result("growth.tsv", dataset="growth"),
        fits=result("fits.tsv", dataset="growth"),
    output:
        growth=result("figures/growth.png", dataset="growth"),
    log:
        result("logs/plot_growth.log", dataset="growth"),
    benchmark:
        result("benchmarks/plot_growth.tsv", dataset="growth")
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        cfg=slices.no_settings(),
        code=code_digest("aam.stages.plot_growth"),
    message:
        "Drawing how the stages grow"
    script:
        "../scripts/run_stage.py"
