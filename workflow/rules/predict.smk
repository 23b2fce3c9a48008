"""Apply a task's models to another table.

Inputs: a table of `predictions`, with its sequences and metadata where given, `finetune/<model>/<task>/model/` and the `digests.json` that stands for it, for an encoder that is not `full` `pretrain/<model>/asvs.safetensors`.
Outputs: `predict/<model>/<task>/<table>.tsv`; of the super learner `finetune/<model>/<task>/super_learner/`, with `super_learner.json` next to it, which stands for it, and `predict/<model>/<task>/super_learner/<table>.tsv`.
Without models the super learner of the baselines: `first/<task>/super_learner/`, with `super_learner.json` next to it, and `predict/first/<task>/super_learner/<table>.tsv`.
"""


# A model may be called first.
ruleorder: predict_super_learner > predict_first


rule predict:
    input:
        unpack(prediction_files),
        unpack(frozen_asvs),
        model=ancient(result("finetune/{model}/{task}/model")),
        digests=result("finetune/{model}/{task}/digests.json"),
    output:
        predictions=result("predict/{model}/{task}/{table}.tsv"),
        notes=result("predict/{model}/{task}/{table}.notes.tsv"),
    log:
        result("logs/predict/{model}/{task}/{table}.log"),
    benchmark:
        result("benchmarks/predict/{model}/{task}/{table}.tsv")
    conda:
        ENVIRONMENT
    threads: CONFIG.runtime.threads
    resources:
        mem_mb=16000,
        runtime=240,
        gpu=gpus,
    params:
        settings={},
        code=script_digest("predict"),
        content=content_of(prediction_files),
    message:
        f"Predicting {{wildcards.task}} of {{wildcards.table}} with {MODEL}"
    script:
        "../scripts/predict.py"


rule super_learner:
    input:
        model=ancient(result("finetune/{model}/{task}/model")),
        digests=result("finetune/{model}/{task}/digests.json"),
        predictions=result("finetune/{model}/{task}/predictions.tsv"),
        nested=result("finetune/{model}/{task}/nested.parquet"),
        baselines=baselines_file,
        nested_baselines=nested_baselines_file,
        folds=folds_file,
        views=view_files,
        tree=result("inputs/tree.nwk"),
        sequences=result("inputs/sequences.fasta"),
    output:
        directory=directory(result("finetune/{model}/{task}/super_learner")),
        digest=result("finetune/{model}/{task}/super_learner.json"),
    log:
        result("logs/super_learner/{model}/{task}.log"),
    benchmark:
        result("benchmarks/super_learner/{model}/{task}.tsv")
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=8000,
        runtime=60,
    params:
        settings=lambda wildcards: slices.super_learner(
            CONFIG, wildcards.dataset, wildcards.model, wildcards.task
        ),
        code=script_digest("super_learner"),
    message:
        f"Keeping the super learner of {MODEL} and the baselines on {{wildcards.task}}"
    script:
        "../scripts/super_learner.py"


rule predict_super_learner:
    input:
        unpack(prediction_files),
        unpack(frozen_asvs),
        model=ancient(result("finetune/{model}/{task}/super_learner")),
        digest=result("finetune/{model}/{task}/super_learner.json"),
    output:
        predictions=result("predict/{model}/{task}/super_learner/{table}.tsv"),
        notes=result("predict/{model}/{task}/super_learner/{table}.notes.tsv"),
    log:
        result("logs/predict_super_learner/{model}/{task}/{table}.log"),
    benchmark:
        result("benchmarks/predict_super_learner/{model}/{task}/{table}.tsv")
    conda:
        ENVIRONMENT
    threads: CONFIG.runtime.threads
    resources:
        mem_mb=16000,
        runtime=240,
        gpu=gpus,
    params:
        settings={},
        code=script_digest("predict"),
        content=content_of(prediction_files),
    message:
        f"Predicting {{wildcards.task}} of {{wildcards.table}} with {MODEL} and the baselines"
    script:
        "../scripts/predict.py"


rule first_super_learner:
    input:
        baselines=baselines_file,
        nested_baselines=nested_baselines_file,
        folds=folds_file,
        views=view_files,
        tree=result("inputs/tree.nwk"),
        sequences=result("inputs/sequences.fasta"),
        table=result("inputs/table.biom"),
    output:
        directory=directory(result("first/{task}/super_learner")),
        digest=result("first/{task}/super_learner.json"),
    log:
        result("logs/first_super_learner/{task}.log"),
    benchmark:
        result("benchmarks/first_super_learner/{task}.tsv")
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=8000,
        runtime=60,
    params:
        settings=lambda wildcards: slices.first_super_learner(
            CONFIG, wildcards.dataset, wildcards.task
        ),
        code=script_digest("first_super_learner"),
    message:
        "Keeping the super learner of the baselines on {wildcards.task}"
    script:
        "../scripts/first_super_learner.py"


rule predict_first:
    input:
        unpack(baseline_prediction_files),
        model=ancient(result("first/{task}/super_learner")),
        digest=result("first/{task}/super_learner.json"),
    output:
        predictions=result("predict/first/{task}/super_learner/{table}.tsv"),
        notes=result("predict/first/{task}/super_learner/{table}.notes.tsv"),
    log:
        result("logs/predict_first/{task}/{table}.log"),
    benchmark:
        result("benchmarks/predict_first/{task}/{table}.tsv")
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=16000,
        runtime=240,
    params:
        settings={},
        code=script_digest("predict_first"),
        content=content_of(baseline_prediction_files),
    message:
        "Predicting {wildcards.task} of {wildcards.table} with the baselines"
    script:
        "../scripts/predict_first.py"
