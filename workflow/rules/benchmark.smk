"""Time the modes of training, and gather the accuracy of every model and task.

Inputs: `tokens/asvs.arrow`, `views/samples.arrow`, and the targets of the first model: `unifrac/<metric>/view<v>.parquet`, or `inputs/tree.nwk` where they are computed in the batch, or both where rows are subsampled; of the accuracy `finetune/<model>/<task>/scores.json`.
Outputs: `benchmark/speed.tsv`, `speed.md`, `roofline.json`, `accuracy.tsv`.
"""


rule benchmark_speed:
    input:
        unpack(partial(target_files, model=FIRST_MODEL)),
        tokens=result("tokens/asvs.arrow"),
        samples=result("views/samples.arrow"),
    output:
        table=report(
            result("benchmark/speed.tsv"),
            caption="../report/speed.rst",
            category="Benchmark",
            labels={"dataset": "{dataset}", "content": "speed, table"},
        ),
        text=result("benchmark/speed.md"),
        roofline=result("benchmark/roofline.json"),
    log:
        result("logs/benchmark_speed.log"),
    benchmark:
        result("benchmarks/benchmark_speed.tsv")
    priority: TIMING_PRIORITY
    conda:
        ENVIRONMENT
    threads: all_cores
    resources:
        mem_mb=32000,
        runtime=240,
        gpu=gpus,
    params:
        settings=lambda wildcards: slices.benchmark(
            CONFIG, wildcards.dataset, FIRST_MODEL
        ).plain(),
        code=script_digest("benchmark_speed"),
    message:
        "Timing {wildcards.dataset}"
    script:
        "../scripts/benchmark_speed.py"


rule benchmark_accuracy:
    input:
        scores=lambda wildcards: finetuning_of(wildcards.dataset),
    output:
        table=report(
            result("benchmark/accuracy.tsv"),
            caption="../report/accuracy.rst",
            category="Benchmark",
            labels={"dataset": "{dataset}", "content": "accuracy, table"},
        ),
    log:
        result("logs/benchmark_accuracy.log"),
    benchmark:
        result("benchmarks/benchmark_accuracy.tsv")
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        settings={},
        code=script_digest("benchmark_accuracy"),
    message:
        "Gathering the accuracy on {wildcards.dataset}"
    script:
        "../scripts/benchmark_accuracy.py"
