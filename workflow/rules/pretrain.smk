"""Pretrain one encoder on one dataset, or one per fold of a task without the samples of the fold.

Inputs: `tokens/asvs.arrow`, `views/samples.arrow`, and the targets: `unifrac/<metric>/view<v>.parquet`, or `inputs/tree.nwk` where they are computed in the batch, or both where rows are subsampled.
Where `pretrained_on` names studies also `inputs/metadata.parquet`; with a start `inputs/sequences.fasta`, and `model/` and `embeddings.parquet` of the model that it starts from, or `config.json` and `model.safetensors` of its directory.
Of an encoder per fold also `folds/<task>.members.tsv`.
Outputs: `pretrain/<model>/`: `model/`, `scores.json`, `history.parquet`, `embeddings.parquet`, `asvs.safetensors`, `pairs.parquet`;
`pretrain/<model>/inductive/<task>/`: `encoders/fold<k>/`, `digests.json`, `scores.json`.
Checkpoints lie in the undeclared `pretrain/<model>/work/`, so that they survive a failure.
"""


rule pretrain:
    input:
        unpack(pretraining_files),
        tokens=result("tokens/asvs.arrow"),
        samples=result("views/samples.arrow"),
    output:
        model=directory(result("pretrain/{model}/model")),
        scores=result("pretrain/{model}/scores.json"),
        history=result("pretrain/{model}/history.parquet"),
        embeddings=result("pretrain/{model}/embeddings.parquet"),
        asvs=result("pretrain/{model}/asvs.safetensors"),
        pairs=result("pretrain/{model}/pairs.parquet"),
    log:
        result("logs/pretrain/{model}.log"),
    benchmark:
        result("benchmarks/pretrain/{model}.tsv")
    priority: PRETRAINING_PRIORITY
    conda:
        ENVIRONMENT
    threads: CONFIG.runtime.threads
    resources:
        **CONFIG.runtime.allocation,
        gpu=lambda wildcards: gpus(wildcards, CONFIG.runtime.processes),
        mem_mb=32000,
        runtime=1440,
    params:
        settings=lambda wildcards: slices.pretrain(
            CONFIG, wildcards.dataset, wildcards.model
        ).plain(),
        code=script_digest("pretrain"),
        content=content_of(starting_files),
        work=result("pretrain/{model}/work"),
    message:
        f"Pretraining {MODEL} on {{wildcards.dataset}}"
    script:
        "../scripts/pretrain.py"


rule pretrain_inductive:
    input:
        unpack(pretraining_files),
        tokens=result("tokens/asvs.arrow"),
        samples=result("views/samples.arrow"),
        members=result("folds/{task}.members.tsv"),
    output:
        encoders=directory(result("pretrain/{model}/inductive/{task}/encoders")),
        digests=result("pretrain/{model}/inductive/{task}/digests.json"),
        scores=result("pretrain/{model}/inductive/{task}/scores.json"),
    log:
        result("logs/pretrain_inductive/{model}/{task}.log"),
    benchmark:
        result("benchmarks/pretrain_inductive/{model}/{task}.tsv")
    priority: PRETRAINING_PRIORITY
    conda:
        ENVIRONMENT
    threads: CONFIG.runtime.threads
    resources:
        mem_mb=32000,
        runtime=2880,
        gpu=gpus,
    params:
        settings=lambda wildcards: slices.pretrain(
            CONFIG, wildcards.dataset, wildcards.model
        ).plain(),
        code=script_digest("pretrain_inductive"),
        content=content_of(starting_files),
        work=result("pretrain/{model}/inductive/{task}/work"),
    message:
        f"Pretraining {MODEL} once per fold of {{wildcards.task}}"
    script:
        "../scripts/pretrain_inductive.py"
