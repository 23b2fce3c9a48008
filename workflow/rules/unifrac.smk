"""Compute distances between the samples of a view, or Faith's diversity.

Inputs: `rarefied/view<v>.biom`, `inputs/tree.nwk` (for the metrics that need a tree).
Outputs: `unifrac/<metric>/view<v>.parquet`.

With `unifrac.partitions`, as many jobs compute a share of UniFrac each, in `parts/view<v>/<part>-of-<parts>.parquet`, and `unifrac` merges them.
"""


rule unifrac_part:
    input:
        unpack(phylogeny_files),
    output:
        part=temp(result("unifrac/{metric}/parts/view{view}/{part}-of-{parts}.parquet")),
    log:
        result("logs/unifrac_part/{metric}/view{view}/{part}/of-{parts}.log"),
    benchmark:
        result("benchmarks/unifrac_part/{metric}/view{view}/{part}/of-{parts}.tsv")
    wildcard_constraints:
        part=r"\d+",
        parts=r"\d+",
    priority: FIRST_ANSWER_PRIORITY
    conda:
        ENVIRONMENT
    threads: CONFIG.runtime.threads
    resources:
        mem_mb=8000,
        runtime=720,
    params:
        settings=lambda wildcards: slices.unifrac_part(
            CONFIG,
            wildcards.dataset,
            wildcards.metric,
            int(wildcards.part),
            int(wildcards.parts),
        ).plain(),
        code=script_digest("unifrac_part"),
        work=result("unifrac/{metric}/work/view{view}/{part}-of-{parts}"),
    message:
        "Comparing the samples of {wildcards.dataset}: {wildcards.metric}, view {wildcards.view}, part {wildcards.part} of {wildcards.parts}"
    script:
        "../scripts/unifrac_part.py"


rule unifrac:
    input:
        unpack(distance_files),
    output:
        distances=result("unifrac/{metric}/view{view}.parquet"),
    log:
        result("logs/unifrac/{metric}/view{view}.log"),
    cache: SHARED
    priority: FIRST_ANSWER_PRIORITY
    conda:
        ENVIRONMENT
    threads: unifrac_threads
    resources:
        mem_mb=16000,
        runtime=720,
    params:
        settings=lambda wildcards: slices.unifrac(
            CONFIG, wildcards.dataset, wildcards.metric
        ).plain(),
        code=script_digest("unifrac_distances"),
        work=result("unifrac/{metric}/work/view{view}"),
    message:
        "Comparing the samples of {wildcards.dataset}: {wildcards.metric}, view {wildcards.view}"
    script:
        "../scripts/unifrac_distances.py"
