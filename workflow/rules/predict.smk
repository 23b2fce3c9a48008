"""Apply the methods of a task to another table.

Inputs: a table of `predictions`, with its sequences and metadata where given, `finetune/<model>/<task>/model/` and the `digests.json` that stands for it, for an encoder that is not `full` `pretrain/<model>/asvs.safetensors`.
Outputs: `answers/<task>/<answer>/super_learner/`, with `super_learner.json` next to it, which stands for it; `predict/<answer>/<task>/<table>.tsv`, by the leading method of the answer; `predict/<model>/<task>/networks/<table>.tsv`, by networks alone where a super learner leads; `predict/first/<task>/<table>.clades.tsv`, which clades moved the predictions.
"""


rule super_learner:
    input:
        unpack(mixed_networks),
        unpack(tree_file),
        unpack(named_lineages),
        unpack(clade_files),
        baselines=baselines_file,
        nested_baselines=nested_baselines_file,
        folds=folds_file,
        views=view_files,
        sequences=result("inputs/sequences.fasta"),
        table=result("inputs/table.biom"),
    output:
        directory=directory(result("answers/{task}/{answer}/super_learner")),
        digest=result("answers/{task}/{answer}/super_learner.json"),
    log:
        result("logs/super_learner/{task}/{answer}.log"),
    benchmark:
        result("benchmarks/super_learner/{task}/{answer}.tsv")
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=16000,
        runtime=240,
    params:
        settings=lambda wildcards: slices.super_learner(
            CONFIG, wildcards.task, wildcards.answer
        ).plain(),
        code=script_digest("super_learner"),
    message:
        "Keeping the super learner of the answer {wildcards.answer} to {wildcards.task}"
    script:
        "../scripts/super_learner.py"


rule predict:
    input:
        unpack(prediction_files),
        unpack(frozen_asvs),
        unpack(leading_method),
    output:
        predictions=result("predict/{answer}/{task}/{table}.tsv"),
        notes=result("predict/{answer}/{task}/{table}.notes.tsv"),
    log:
        result("logs/predict/{answer}/{task}/{table}.log"),
    benchmark:
        result("benchmarks/predict/{answer}/{task}/{table}.tsv")
    conda:
        ENVIRONMENT
    threads: CONFIG.runtime.threads
    resources:
        mem_mb=16000,
        runtime=240,
        gpu=gpus,
    params:
        settings=slices.predict().plain(),
        code=script_digest("predict"),
        content=content_of(prediction_files),
    message:
        "Predicting {wildcards.task} of {wildcards.table} by the answer {wildcards.answer}"
    script:
        "../scripts/predict.py"


rule predict_networks:
    input:
        unpack(prediction_files),
        unpack(frozen_asvs),
        model=ancient(result("finetune/{model}/{task}/model")),
        digests=result("finetune/{model}/{task}/digests.json"),
    output:
        predictions=result("predict/{model}/{task}/networks/{table}.tsv"),
        notes=result("predict/{model}/{task}/networks/{table}.notes.tsv"),
    log:
        result("logs/predict_networks/{model}/{task}/{table}.log"),
    benchmark:
        result("benchmarks/predict_networks/{model}/{task}/{table}.tsv")
    conda:
        ENVIRONMENT
    threads: CONFIG.runtime.threads
    resources:
        mem_mb=16000,
        runtime=240,
        gpu=gpus,
    params:
        settings=slices.predict().plain(),
        code=script_digest("predict"),
        content=content_of(prediction_files),
    message:
        f"Predicting {{wildcards.task}} of {{wildcards.table}} with {MODEL}"
    script:
        "../scripts/predict.py"


rule explain_predictions:
    input:
        unpack(prediction_files),
        model=ancient(result("answers/{task}/first/super_learner")),
        digest=result("answers/{task}/first/super_learner.json"),
    output:
        effects=result("predict/first/{task}/{table}.clades.tsv"),
    log:
        result("logs/explain_predictions/{task}/{table}.log"),
    benchmark:
        result("benchmarks/explain_predictions/{task}/{table}.tsv")
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=16000,
        runtime=240,
    params:
        settings=slices.predict().plain(),
        code=script_digest("explain_predictions"),
        content=content_of(prediction_files),
    message:
        "Explaining the predictions of {wildcards.task} of {wildcards.table} by clades"
    script:
        "../scripts/explain_predictions.py"
