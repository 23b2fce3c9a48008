"""Predict a column of the metadata: folds, baselines, a fine-tuned model per fold, and scores.

Inputs: `inputs/metadata.parquet`, `inputs/table.biom`, `rarefied/view<v>.biom`, `views/samples.arrow`, `tokens/asvs.arrow`;
of the encoder `pretrain/<model>/`: `model/`, `embeddings.parquet` and, where it stays as it is, `asvs.safetensors`, or, for an inductive task, `inductive/<task>/`: `encoders/`, `digests.json`;
of the baselines `inputs/tree.nwk` and `unifrac/unweighted/view<v>.parquet`, without a tree `unifrac/bray_curtis/view<v>.parquet`.
Outputs: `folds/<task>.tsv`, `folds/<task>.members.tsv`, `folds/<task>.notes.tsv`, `baselines/<task>/`, of covariates `covariates/<task>/`, `finetune/<model>/<task>/`: `model/`, `networks.tsv`,
`nested.parquet`, `digests.json`, `recipes.tsv`, `history.parquet`; `answers/<task>/<answer>/`: `scores.json`, `predictions.tsv`,
where the answer is `first`, of the baselines alone, or the name of a model, of its networks and the baselines.
A further question about a task is a task `<task>@<question>` here (`aam.config.questions`), which also reads `answers/<task>/<answer>/predictions.tsv` and `folds/<task>.tsv`.
"""


rule folds:
    input:
        metadata=result("inputs/metadata.parquet"),
        table=result("rarefied/view0.biom"),
    output:
        folds=result("folds/{task}.tsv"),
        members=result("folds/{task}.members.tsv"),
        notes=result("folds/{task}.notes.tsv"),
    log:
        result("logs/folds/{task}.log"),
    benchmark:
        result("benchmarks/folds/{task}.tsv")
    priority: FOLDS_PRIORITY
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        settings=lambda wildcards: slices.folds(CONFIG, wildcards.task).plain(),
        code=script_digest("folds"),
    message:
        "Dividing the samples of {wildcards.task} into folds"
    script:
        "../scripts/folds.py"


rule baselines:
    input:
        unpack(tree_file),
        folds=result("folds/{task}.tsv"),
        views=view_files,
        distances=lambda wildcards: distance_views(
            wildcards.dataset, slices.compared_metrics(CONFIG, wildcards.task)
        ),
    output:
        predictions=result("baselines/{task}/by_baseline.tsv"),
        nested=result("baselines/{task}/nested.parquet"),
    log:
        result("logs/baselines/{task}.log"),
    benchmark:
        result("benchmarks/baselines/{task}.tsv")
    priority: FIRST_ANSWER_PRIORITY
    conda:
        ENVIRONMENT
    threads: CONFIG.runtime.threads
    resources:
        mem_mb=16000,
        runtime=240,
    params:
        settings=lambda wildcards: slices.baselines(CONFIG, wildcards.task).plain(),
        code=script_digest("baselines"),
    message:
        "Fitting the baselines of {wildcards.task}"
    script:
        "../scripts/baselines.py"


rule clades:
    input:
        unpack(tree_file),
        unpack(taxonomy_file),
        folds=folds_file,
        views=view_files,
        table=result("inputs/table.biom"),
        sequences=result("inputs/sequences.fasta"),
    output:
        clades=result("clades/{task}.tsv"),
        samples=result("clades/{task}.samples.tsv"),
        features=result("clades/{task}.features.tsv"),
        named_tree=result("clades/{task}.nwk"),
        sequences=result("clades/{task}.fasta"),
    log:
        result("logs/clades/{task}.log"),
    benchmark:
        result("benchmarks/clades/{task}.tsv")
    priority: FIRST_ANSWER_PRIORITY
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=8000,
        runtime=120,
    params:
        settings=lambda wildcards: slices.clades(CONFIG, wildcards.task).plain(),
        code=script_digest("clades"),
    message:
        "Testing which clades {wildcards.task} depends on"
    script:
        "../scripts/clades.py"


rule covariates:
    input:
        folds=folds_file,
        views=view_files,
        metadata=result("inputs/metadata.parquet"),
    output:
        predictions=result("covariates/{task}/by_method.tsv"),
        nested=result("covariates/{task}/nested.parquet"),
    log:
        result("logs/covariates/{task}.log"),
    benchmark:
        result("benchmarks/covariates/{task}.tsv")
    priority: FIRST_ANSWER_PRIORITY
    conda:
        ENVIRONMENT
    threads: CONFIG.runtime.threads
    resources:
        mem_mb=16000,
        runtime=240,
    params:
        settings=lambda wildcards: slices.covariates(CONFIG, wildcards.task).plain(),
        code=script_digest("covariates"),
    message:
        "Fitting the covariates of {wildcards.task}"
    script:
        "../scripts/covariates.py"


rule finetune:
    input:
        unpack(starting_model),
        folds=folds_file,
        table=result("inputs/table.biom"),
        tokens=result("tokens/asvs.arrow"),
        samples=result("views/samples.arrow"),
    output:
        model=directory(result("finetune/{model}/{task}/model")),
        predictions=result("finetune/{model}/{task}/networks.tsv"),
        digests=result("finetune/{model}/{task}/digests.json"),
        history=result("finetune/{model}/{task}/history.parquet"),
        recipes=result("finetune/{model}/{task}/recipes.tsv"),
        nested=result("finetune/{model}/{task}/nested.parquet"),
    log:
        result("logs/finetune/{model}/{task}.log"),
    benchmark:
        result("benchmarks/finetune/{model}/{task}.tsv")
    conda:
        ENVIRONMENT
    threads: CONFIG.runtime.threads
    resources:
        mem_mb=32000,
        runtime=1440,
        gpu=lambda wildcards: gpus(wildcards, CONFIG.runtime.devices),
    params:
        settings=lambda wildcards: slices.finetune(
            CONFIG, wildcards.dataset, wildcards.model, wildcards.task
        ).plain(),
        code=script_digest("finetune"),
        work=result("finetune/{model}/{task}/work"),
    message:
        f"Fine-tuning {MODEL} to {{wildcards.task}}"
    script:
        "../scripts/finetune.py"


rule score:
    input:
        unpack(network_predictions),
        unpack(covariate_predictions),
        unpack(asked_answer),
        baselines=baselines_file,
        nested_baselines=nested_baselines_file,
        folds=folds_file,
        metadata=result("inputs/metadata.parquet"),
        table=result("inputs/table.biom"),
        rarefied=result("rarefied/view0.biom"),
    output:
        scores=result("answers/{task}/{answer}/scores.json"),
        predictions=result("answers/{task}/{answer}/predictions.tsv"),
    log:
        result("logs/score/{task}/{answer}.log"),
    benchmark:
        result("benchmarks/score/{task}/{answer}.tsv")
    priority: FIRST_ANSWER_PRIORITY
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        settings=lambda wildcards: slices.score(
            CONFIG, wildcards.task, wildcards.answer
        ).plain(),
        code=script_digest("score"),
    message:
        "Scoring the answer {wildcards.answer} to {wildcards.task}"
    script:
        "../scripts/score.py"
