"""Apply a task's models to another table.

Inputs: a table of `predictions`, with its sequences and metadata where given, `finetune/<model>/<task>/model/` and the `digests.json` that stands for it, for a frozen or partial encoder `pretrain/<model>/asvs.safetensors`.
Outputs: `predict/<model>/<task>/<table>.tsv`.
"""


rule predict:
    input:
        unpack(prediction_files),
        unpack(frozen_asvs),
        model=ancient(result("finetune/{model}/{task}/model")),
        digests=result("finetune/{model}/{task}/digests.json"),
    output:
        predictions=result("predict/{model}/{task}/{table}.tsv"),
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
        cfg=slices.no_settings(),
        code=code_digest("aam.stages.predict"),
    message:
        "Predicting {wildcards.task} of {wildcards.table} with {wildcards.model}"
    script:
        "../scripts/run_stage.py"
