"""Put the first answers, which need no networks, on a page.

Inputs: `answers/<task>/first/`, `inputs/table.biom`, `inputs/sequences.fasta`, the lists of what was dropped.
Outputs: `first.html`, `first.md`.
"""


rule first_page:
    input:
        scores=page_input(first_page_files, "scores"),
        cross_validated=page_input(first_page_files, "cross_validated"),
        clades=page_input(first_page_files, "clades"),
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
