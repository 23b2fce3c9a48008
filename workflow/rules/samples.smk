"""Gather all views, and augmented rows, in the store that training reads.

Inputs: `tokens/asvs.arrow`, `rarefied/view<v>.biom` of all views.
Outputs: `views/samples.arrow`.
"""


rule store_samples:
    input:
        tokens=result("tokens/asvs.arrow"),
        views=view_files,
    output:
        samples=result("views/samples.arrow"),
    log:
        result("logs/store_samples.log"),
    benchmark:
        result("benchmarks/store_samples.tsv")
    priority: PRETRAINING_PRIORITY
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=16000,
        runtime=60,
    params:
        settings=lambda wildcards: slices.store_samples(
            CONFIG, wildcards.dataset
        ).plain(),
        code=script_digest("store_samples"),
    message:
        "Storing the samples of {wildcards.dataset} for training"
    script:
        "../scripts/store_samples.py"
