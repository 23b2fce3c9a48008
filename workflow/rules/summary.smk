"""Put the headline figures of a dataset on one page, with links to its tables and figures.

Inputs: `scores.json`, `intervals.tsv`, `importance.tsv` of all models and of the tasks that are explained (without models those of the first answers), `predict/`, the lists of what was dropped, `benchmark/accuracy.tsv`, `figures/`, `inputs/table.biom`.
Outputs: `summary.md`, `report.html`.
"""


rule summary:
    input:
        unpack(accuracy_file),
        pretrain=lambda wildcards: pretraining_of(wildcards.dataset),
        finetune=lambda wildcards: answers_of(wildcards.dataset, "scores.json"),
        intervals=lambda wildcards: answers_of(wildcards.dataset, "intervals.tsv"),
        importance=lambda wildcards: result_files(
            wildcards.dataset,
            "finetune/{model}/{task}/importance.tsv",
            tasks=explained_tasks_of(wildcards.dataset),
        ),
        predictions=lambda wildcards: predictions_of(wildcards.dataset),
        dropped=[result("inputs/dropped.tsv"), result("rarefied/view0.dropped.tsv")],
        notes=lambda wildcards: [
            *notes_of(wildcards.dataset),
            *prediction_notes_of(wildcards.dataset),
        ],
        figures=lambda wildcards: figures_of(wildcards.dataset),
        table=result("inputs/table.biom"),
    output:
        summary=result("summary.md"),
        report=result("report.html"),
    log:
        result("logs/summary.log"),
    benchmark:
        result("benchmarks/summary.tsv")
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        settings=lambda wildcards: {
            **slices.summary(CONFIG, wildcards.dataset),
            "captions": CAPTIONS,
        },
        code=script_digest("summary"),
    message:
        "Writing the page of {wildcards.dataset}"
    script:
        "../scripts/summary.py"
