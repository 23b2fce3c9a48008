"""Answer each task by its baselines, without networks, and put the answers on a page.

Inputs: `baselines/<task>/`, `folds/<task>.tsv`, `inputs/metadata.parquet`; for the page `inputs/table.biom`, `inputs/sequences.fasta`, the lists of what was dropped.
Outputs: `first/<task>/`: `scores.json`, `intervals.tsv`; `first.html`, `first.md`.
"""


rule first_answer:
    input:
        baselines=baselines_file,
        nested_baselines=nested_baselines_file,
        folds=folds_file,
        metadata=result("inputs/metadata.parquet"),
    output:
        scores=result("first/{task}/scores.json"),
        intervals=result("first/{task}/intervals.tsv"),
    log:
        result("logs/first_answer/{task}.log"),
    benchmark:
        result("benchmarks/first_answer/{task}.tsv")
    priority: FIRST_ANSWER_PRIORITY
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        settings=lambda wildcards: slices.first(
            CONFIG, wildcards.dataset, wildcards.task
        ),
        code=script_digest("score"),
    message:
        "Scoring the baselines of {wildcards.task}"
    script:
        "../scripts/score.py"


rule first_page:
    input:
        scores=page_input(first_page_files, "scores"),
        intervals=page_input(first_page_files, "intervals"),
        figures=page_input(first_page_files, "figures"),
        dropped=[result("inputs/dropped.tsv"), result("rarefied/view0.dropped.tsv")],
        notes=lambda wildcards: notes_of(wildcards.dataset),
        table=result("inputs/table.biom"),
        sequences=result("inputs/sequences.fasta"),
    output:
        summary=result("first.md"),
        report=result("first.html"),
    log:
        result("logs/first_page.log"),
    benchmark:
        result("benchmarks/first_page.tsv")
    priority: FIRST_ANSWER_PRIORITY
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        settings=lambda wildcards: {
            **slices.first_page(CONFIG, wildcards.dataset).plain(),
            "captions": CAPTIONS,
            "files": page_facts(first_page_files, wildcards.dataset),
        },
        code=script_digest("summary"),
    message:
        "Putting the first answers to {wildcards.dataset} on a page"
    script:
        "../scripts/summary.py"
