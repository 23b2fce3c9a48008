"""Write results as artifacts that QIIME 2 reads.

Inputs: one of `unifrac/<metric>/view<v>.parquet`, `pretrain/<model>/embeddings.parquet`, `importance.tsv`, `predictions.tsv`, `predict/<model>/<task>/<table>.tsv`.
Outputs: a .qza in the same folder.
"""


rule export_qza:
    input:
        source=lambda wildcards: result(
            exports(wildcards.dataset)[wildcards.place][0], dataset=wildcards.dataset
        ),
    output:
        artifact=result("{place}.qza"),
    log:
        result("logs/export_qza/{place}.log"),
    benchmark:
        result("benchmarks/export_qza/{place}.tsv")
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        settings=lambda wildcards: {
            "type": exports(wildcards.dataset)[wildcards.place][1]
        },
        code=script_digest("export_qza"),
    message:
        "Writing {wildcards.place} of {wildcards.dataset} for QIIME 2"
    script:
        "../scripts/export_qza.py"
