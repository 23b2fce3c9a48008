"""Attention All Microbes: from a feature table to cross-validated predictions.

The configuration is `config/config.yaml` unless the command line names others; those stand alone.
"""

from snakemake.utils import min_version

min_version("9.27")

if not workflow.overwrite_configfiles:

    configfile: "config/config.yaml"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"


wildcard_constraints:
    dataset=one_of(CONFIG.datasets),
    model=one_of(CONFIG.models),
    task=one_of(CONFIG.tasks),
    table=one_of(CONFIG.predictions),
    metric=one_of(METRICS),
    view=r"\d+",


include: "workflow/rules/import.smk"
include: "workflow/rules/rarefy.smk"
include: "workflow/rules/tokenize.smk"
include: "workflow/rules/unifrac.smk"
include: "workflow/rules/augment.smk"
include: "workflow/rules/pretrain.smk"
include: "workflow/rules/finetune.smk"
include: "workflow/rules/predict.smk"
include: "workflow/rules/explain.smk"
include: "workflow/rules/benchmark.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/summary.smk"


localrules:
    all,
    data,
    pretraining,
    finetuning,
    plot_rarefaction,
    plot_pretraining,
    plot_task,
    plot_importance,
    plot_speed,
    plot_accuracy,
    plot_scaling,
    plot_models,
    summary,
    bench,


rule all:
    default_target: True
    input:
        [path for dataset in CONFIG.datasets for path in everything_of(dataset)],
    message:
        "Everything is there"


rule data:
    input:
        [path for dataset in CONFIG.datasets for path in data_of(dataset)],
    message:
        "Tables, tokens, distances and sample stores are there"


rule pretraining:
    input:
        [path for dataset in CONFIG.datasets for path in pretraining_of(dataset)],
    message:
        "All encoders are pretrained"


rule bench:
    input:
        [path for dataset in CONFIG.datasets for path in bench_of(dataset)],
    message:
        "Speed, scaling and models are measured"


rule finetuning:
    input:
        [path for dataset in CONFIG.datasets for path in finetuning_of(dataset)],
    message:
        "All tasks are fine-tuned and scored"
