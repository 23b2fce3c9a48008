"""Draw the same number of reads from every sample, and show what a depth costs.

Inputs: `inputs/table.biom`, `inputs/tree.nwk` where ASVs behind long branches are left out.
Outputs: `rarefied/view<v>.biom`, `rarefied/view<v>.dropped.tsv`, `rarefied/curve.tsv`.
"""


rule rarefy:
    input:
        unpack(table_files),
    output:
        table=result("rarefied/view{view}.biom"),
        dropped=result("rarefied/view{view}.dropped.tsv"),
    log:
        result("logs/rarefy/view{view}.log"),
    cache: SHARED
    priority: FIRST_ANSWER_PRIORITY
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=8000,
        runtime=60,
    params:
        settings=lambda wildcards: slices.rarefy(
            CONFIG, wildcards.dataset, int(wildcards.view)
        ).plain(),
        code=script_digest("rarefy"),
    message:
        "Rarefying {wildcards.dataset}, view {wildcards.view}"
    script:
        "../scripts/rarefy.py"


rule rarefaction_curve:
    input:
        table=result("inputs/table.biom"),
    output:
        curve=result("rarefied/curve.tsv"),
    log:
        result("logs/rarefaction_curve.log"),
    benchmark:
        result("benchmarks/rarefaction_curve.tsv")
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=8000,
        runtime=60,
    params:
        settings={},
        code=script_digest("rarefaction_curve"),
    message:
        "Computing the rarefaction curves of {wildcards.dataset}"
    script:
        "../scripts/rarefaction_curve.py"
