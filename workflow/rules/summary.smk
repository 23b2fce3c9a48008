"""Put the answers of a dataset on one page, with links to its tables and figures.

Inputs: `answers/`: `scores.json`, `predictions.tsv` of all models (without models of the first answers), `importance.tsv` of the tasks that are explained, `predict/`, the lists of what was dropped, `benchmark/accuracy.tsv`, `figures/`, `inputs/table.biom`.
Outputs: `summary.md`, `report.html`.
"""


rule summary:
    input:
        unpack(accuracy_file),
        scores=page_input(page_files, "scores"),
        cross_validated=page_input(page_files, "cross_validated"),
        clades=page_input(page_files, "clades"),
        clade_features=page_input(page_files, "clade_features"),
        clade_losses=page_input(page_files, "clade_losses"),
        importance=page_input(page_files, "importance"),
        encoders=page_input(page_files, "encoders"),
        predictions=page_input(page_files, "predictions"),
        effects=page_input(page_files, "effects"),
        figures=page_input(page_files, "figures"),
        dropped=[result("inputs/dropped.tsv"), result("rarefied/view0.dropped.tsv")],
        notes=lambda wildcards: [
            *notes_of(wildcards.dataset),
            *prediction_notes_of(wildcards.dataset),
        ],
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
            **slices.summary(CONFIG, wildcards.dataset).plain(),
            "captions": CAPTIONS,
            "files": page_facts(page_files, wildcards.dataset),
        },
        code=script_digest("summary"),
    message:
        "Writing the page of {wildcards.dataset}"
    script:
        "../scripts/summary.py"
