"""Say which ASVs the predictions of a task rest on.

Inputs: `finetune/<model>/<task>/model/` and the `digests.json` that stands for it, `folds/<task>.tsv`, `tokens/asvs.arrow`, `views/samples.arrow`, `inputs/tree.nwk`.
Outputs: `finetune/<model>/<task>/importance.tsv`, `importance_check.json`; `figures/finetune/<model>/<task>/importance.png`.
"""


rule explain:
    input:
        model=ancient(result("finetune/{model}/{task}/model")),
        digests=result("finetune/{model}/{task}/digests.json"),
        folds=folds_file,
        tokens=result("tokens/asvs.arrow"),
        samples=result("views/samples.arrow"),
    output:
        importance=result("finetune/{model}/{task}/importance.tsv"),
        check=result("finetune/{model}/{task}/importance_check.json"),
    log:
        result("logs/explain/{model}/{task}.log"),
    benchmark:
        result("benchmarks/explain/{model}/{task}.tsv")
    conda:
        ENVIRONMENT
    threads: CONFIG.runtime.threads
    resources:
        mem_mb=16000,
        runtime=240,
        gpu=gpus,
    params:
        cfg=lambda wildcards: slices.explain(CONFIG, wildcards.task),
        code=code_digest("aam.stages.explain"),
    message:
        "Explaining {wildcards.model} on {wildcards.task}"
    script:
        "../scripts/run_stage.py"


rule plot_importance:
    input:
        importance=result("finetune/{model}/{task}/importance.tsv"),
        check=result("finetune/{model}/{task}/importance_check.json"),
        tree=result("inputs/tree.nwk"),
    output:
        importance=report(
            result("figures/finetune/{model}/{task}/importance.png"),
            caption="../report/importance.rst",
            category="Tasks",
            labels={
                "dataset": "{dataset}",
                "model": "{model}",
                "task": "{task}",
                "picture": "important ASVs",
            },
        ),
    log:
        result("logs/plot_importance/{model}/{task}.log"),
    benchmark:
        result("benchmarks/plot_importance/{model}/{task}.tsv")
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        cfg=slices.no_settings(),
        code=code_digest("aam.stages.plot_importance"),
    message:
        "Drawing the important ASVs of {wildcards.task} with {wildcards.model}"
    script:
        "../scripts/run_stage.py"
