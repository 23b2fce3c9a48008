"""Compute distances between the samples of a view, or Faith's diversity.

Inputs: `rarefied/view<v>.biom`, `inputs/tree.nwk` (for the metrics that need a tree).
Outputs: `unifrac/<metric>/view<v>.parquet`.
"""


rule unifrac:
    input:
        unpack(distance_files),
    output:
        distances=result("unifrac/{metric}/view{view}.parquet"),
    log:
        result("logs/unifrac/{metric}/view{view}.log"),
    benchmark:
        result("benchmarks/unifrac/{metric}/view{view}.tsv")
    conda:
        ENVIRONMENT
    threads: 8
    resources:
        mem_mb=16000,
        runtime=720,
    params:
        cfg=lambda wildcards: slices.unifrac(
            CONFIG, wildcards.dataset, wildcards.metric
        ),
        code=code_digest("aam.stages.unifrac"),
        work=result("unifrac/{metric}/work/view{view}"),
    message:
        "Computing {wildcards.metric} of {wildcards.dataset}, view {wildcards.view}"
    script:
        "../scripts/compute_unifrac.py"
