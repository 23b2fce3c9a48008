"""Draw what the other rules recorded, so that no picture ever costs a training run.

Inputs: `rarefied/curve.tsv`, the records of pretraining and fine-tuning, `benchmark/speed.tsv`, `scaling.tsv`, `accuracy.tsv`, `models.tsv`.
Outputs: `figures/`.
"""


rule plot_rarefaction:
    input:
        curve=result("rarefied/curve.tsv"),
        dropped=result("rarefied/view0.dropped.tsv"),
    output:
        curve=report(
            result("figures/rarefaction.png"),
            caption="../report/rarefaction.rst",
            category="Data",
            labels={"dataset": "{dataset}", "picture": "rarefaction"},
        ),
    log:
        result("logs/plot_rarefaction.log"),
    benchmark:
        result("benchmarks/plot_rarefaction.tsv")
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        cfg=lambda wildcards: slices.plot_rarefaction(CONFIG, wildcards.dataset),
        code=code_digest("aam.stages.plot_rarefaction"),
    message:
        "Drawing the rarefaction curves of {wildcards.dataset}"
    script:
        "../scripts/run_stage.py"


rule plot_pretraining:
    input:
        history=result("pretrain/{model}/history.parquet"),
        pairs=result("pretrain/{model}/pairs.parquet"),
        embeddings=result("pretrain/{model}/embeddings.parquet"),
    output:
        history=report(
            result("figures/pretrain/{model}/history.png"),
            caption="../report/pretraining.rst",
            category="Pretraining",
            labels={
                "dataset": "{dataset}",
                "model": "{model}",
                "picture": "training curves",
            },
        ),
        pairs=report(
            result("figures/pretrain/{model}/pairs.png"),
            caption="../report/pairs.rst",
            category="Pretraining",
            labels={
                "dataset": "{dataset}",
                "model": "{model}",
                "picture": "predicted distances",
            },
        ),
        embeddings=report(
            result("figures/pretrain/{model}/embeddings.png"),
            caption="../report/embeddings.rst",
            category="Pretraining",
            labels={
                "dataset": "{dataset}",
                "model": "{model}",
                "picture": "ordination",
            },
        ),
    log:
        result("logs/plot_pretraining/{model}.log"),
    benchmark:
        result("benchmarks/plot_pretraining/{model}.tsv")
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        cfg=slices.no_settings(),
        code=code_digest("aam.stages.plot_pretraining"),
    message:
        "Drawing the pretraining of {wildcards.model} on {wildcards.dataset}"
    script:
        "../scripts/run_stage.py"


rule plot_task:
    input:
        predictions=result("finetune/{model}/{task}/predictions.tsv"),
        metrics=result("finetune/{model}/{task}/metrics.json"),
        history=result("finetune/{model}/{task}/history.parquet"),
    output:
        predictions=report(
            result("figures/finetune/{model}/{task}/predictions.png"),
            caption="../report/predictions.rst",
            category="Tasks",
            labels={
                "dataset": "{dataset}",
                "model": "{model}",
                "task": "{task}",
                "picture": "predictions",
            },
        ),
        history=report(
            result("figures/finetune/{model}/{task}/history.png"),
            caption="../report/finetuning.rst",
            category="Tasks",
            labels={
                "dataset": "{dataset}",
                "model": "{model}",
                "task": "{task}",
                "picture": "training curves",
            },
        ),
    log:
        result("logs/plot_task/{model}/{task}.log"),
    benchmark:
        result("benchmarks/plot_task/{model}/{task}.tsv")
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        cfg=slices.no_settings(),
        code=code_digest("aam.stages.plot_task"),
    message:
        "Drawing {wildcards.task} with {wildcards.model}"
    script:
        "../scripts/run_stage.py"


rule plot_speed:
    input:
        speed=result("benchmark/speed.tsv"),
    output:
        speed=report(
            result("figures/speed.png"),
            caption="../report/speed_picture.rst",
            category="Benchmark",
            labels={"dataset": "{dataset}", "content": "speed, picture"},
        ),
    log:
        result("logs/plot_speed.log"),
    benchmark:
        result("benchmarks/plot_speed.tsv")
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        cfg=slices.no_settings(),
        code=code_digest("aam.stages.plot_benchmark"),
    message:
        "Drawing the speed on {wildcards.dataset}"
    script:
        "../scripts/run_stage.py"


rule plot_scaling:
    input:
        scaling=result("benchmark/scaling.tsv"),
    output:
        scaling=report(
            result("figures/scaling.png"),
            caption="../report/scaling_picture.rst",
            category="Benchmark",
            labels={"dataset": "{dataset}", "content": "scaling, picture"},
        ),
    log:
        result("logs/plot_scaling.log"),
    benchmark:
        result("benchmarks/plot_scaling.tsv")
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        cfg=slices.no_settings(),
        code=code_digest("aam.stages.plot_benchmark"),
    message:
        "Drawing how {wildcards.dataset} scales"
    script:
        "../scripts/run_stage.py"


rule plot_models:
    input:
        models=result("benchmark/models.tsv"),
        curves=result("benchmark/models_curves.tsv"),
    output:
        models=report(
            result("figures/models.png"),
            caption="../report/models_picture.rst",
            category="Benchmark",
            labels={"dataset": "{dataset}", "content": "models, picture"},
        ),
    log:
        result("logs/plot_models.log"),
    benchmark:
        result("benchmarks/plot_models.tsv")
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        cfg=slices.no_settings(),
        code=code_digest("aam.stages.plot_models"),
    message:
        "Drawing the models on {wildcards.dataset}"
    script:
        "../scripts/run_stage.py"


rule plot_accuracy:
    input:
        accuracy=result("benchmark/accuracy.tsv"),
    output:
        accuracy=report(
            result("figures/accuracy.png"),
            caption="../report/accuracy_picture.rst",
            category="Benchmark",
            labels={"dataset": "{dataset}", "content": "accuracy, picture"},
        ),
    log:
        result("logs/plot_accuracy.log"),
    benchmark:
        result("benchmarks/plot_accuracy.tsv")
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        cfg=slices.no_settings(),
        code=code_digest("aam.stages.plot_benchmark"),
    message:
        "Drawing the accuracy on {wildcards.dataset}"
    script:
        "../scripts/run_stage.py"
