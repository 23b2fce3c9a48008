"""Say which ASVs the predictions of a task rest on.

Inputs: `finetune/<model>/<task>/model/` and the `digests.json` that stands for it, `folds/<task>.tsv`, `tokens/asvs.arrow`, `views/samples.arrow`, `inputs/sequences.fasta`, `inputs/taxonomy.tsv` and `inputs/tree.nwk` where there are any, `clades/<task>.tsv` and `.features.tsv`, for an encoder that is not `full` `pretrain/<model>/asvs.safetensors`.
Outputs: `finetune/<model>/<task>/importance.tsv`, `importance.fasta`, `importance_check.json`, `clades.tsv`.
"""


rule explain:
    input:
        unpack(taxonomy_file),
        unpack(tree_file),
        unpack(frozen_asvs),
        model=ancient(result("finetune/{model}/{task}/model")),
        digests=result("finetune/{model}/{task}/digests.json"),
        folds=folds_file,
        tokens=result("tokens/asvs.arrow"),
        samples=result("views/samples.arrow"),
        sequences=result("inputs/sequences.fasta"),
        clades=result("clades/{task}.tsv"),
        clade_features=result("clades/{task}.features.tsv"),
    output:
        importance=result("finetune/{model}/{task}/importance.tsv"),
        sequences=result("finetune/{model}/{task}/importance.fasta"),
        check=result("finetune/{model}/{task}/importance_check.json"),
        clades=result("finetune/{model}/{task}/clades.tsv"),
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
        settings=lambda wildcards: slices.explain(CONFIG, wildcards.task).plain(),
        code=script_digest("explain"),
    message:
        f"Finding the important ASVs for {{wildcards.task}}{OF_A_MODEL}"
    script:
        "../scripts/explain.py"


rule clade_losses:
    input:
        baselines=baselines_file,
        nested_baselines=nested_baselines_file,
        # A directory has no checksum: its digest stands for it.
        model=ancient(result("answers/{task}/first/super_learner")),
        digest=result("answers/{task}/first/super_learner.json"),
    output:
        losses=result("answers/{task}/first/clade_losses.tsv"),
    log:
        result("logs/clade_losses/{task}.log"),
    benchmark:
        result("benchmarks/clade_losses/{task}.tsv")
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=16000,
        runtime=240,
    params:
        settings={},
        code=script_digest("clade_losses"),
    message:
        "Measuring what the answer to {wildcards.task} loses without its clades"
    script:
        "../scripts/clade_losses.py"
