"""The files that rules read: functions of wildcards."""


def named_files(section, *names):
    """Return the files that a section of the configuration names, where it does."""
    given = user_files(CONFIG, section)
    return {name: str(given[name]) for name in names if name in given}


def source_files(*names):
    """Return the input function of the files that a dataset consists of, where it has them."""

    def files(wildcards):
        section = CONFIG.datasets[wildcards.dataset]
        if section.simulate is None:
            return named_files(section, *names)
        simulated = {
            "table": "table.biom",
            "tree": "tree.nwk",
            "metadata": "metadata.tsv",
        }
        return {
            name: result(f"simulated/{simulated[name]}", dataset=wildcards.dataset)
            for name in names
            if name in simulated
        }

    return files


def genes_file(chosen):
    """Return the input function of the genes near a dataset's sequences, where any are looked for.

    `chosen` is what `aam.config.slices` has for the choice of the reference.
    """

    def files(wildcards):
        reference = chosen(CONFIG, wildcards.dataset)
        if reference is None:
            return {}
        path = "inputs/genes/{reference}.tsv"
        return {"genes": result(path, dataset=wildcards.dataset, reference=reference)}

    return files


def files_of_counts(wildcards):
    """Return what the table of a dataset is read from.

    Without sequences of its own the metadata are among it, whose IDs name its samples.
    """
    files = source_files("table", "sequences")(wildcards)
    section = CONFIG.datasets[wildcards.dataset]
    if section.simulate is not None or section.sequences is not None:
        return files
    return files | named_files(section, "metadata")


def content_of(files):
    """Return the function of the digests of an input function's files, where they are the user's."""
    return lambda wildcards: user_digests(
        files(wildcards), Path(CONFIG.results_dir), CONFIG.datasets
    )


def views(dataset):
    """Return the numbers of a dataset's rarefied views."""
    return range(resolved(CONFIG, "rarefaction", dataset=dataset).views)


def table_files(wildcards):
    """Return the table to draw reads from, and the tree where ASVs are left out by it."""
    files = {"table": result("inputs/table.biom", dataset=wildcards.dataset)}
    section = resolved(CONFIG, "rarefaction", dataset=wildcards.dataset)
    if section.long_branches == "drop":
        files["tree"] = result("inputs/tree.nwk", dataset=wildcards.dataset)
    return files


def view_files(wildcards):
    """Return a dataset's rarefied tables."""
    dataset = wildcards.dataset
    return [
        result("rarefied/view{view}.biom", dataset=dataset, view=view)
        for view in views(dataset)
    ]


def phylogeny_files(wildcards):
    """Return a view, and the tree where the metric needs one."""
    dataset = wildcards.dataset
    view = wildcards.view
    files = {"table": result("rarefied/view{view}.biom", dataset=dataset, view=view)}
    if METRICS[wildcards.metric].phylogenetic:
        files["tree"] = result("inputs/tree.nwk", dataset=dataset)
    return files


def jobs_of(wildcards):
    """Return the number of jobs that share a metric of a view."""
    return slices.unifrac_jobs(CONFIG, wildcards.dataset, wildcards.metric)


def unifrac_threads(wildcards):
    """Return the cores of a job that computes distances, or only joins those of others."""
    return CONFIG.runtime.threads if jobs_of(wildcards) == 1 else 1


def distance_files(wildcards):
    """Return the inputs of `unifrac`, with the parts where several jobs share the work."""
    files = phylogeny_files(wildcards)
    jobs = jobs_of(wildcards)
    if jobs > 1:
        path = result("unifrac/{metric}/parts/view{view}/{part}-of-{parts}.parquet")
        files["parts"] = expand(path, **wildcards, part=range(jobs), parts=jobs)
    return files


def target_files(wildcards, model=None):
    """Return the distances that a model learns, metric by metric, or the tree to compute them from.

    Within a metric they come view by view; without `model` they are those of the wildcard. The
    distances of subsampled rows are computed, too.
    """
    dataset = wildcards.dataset
    model = model or wildcards.model
    tree = {"tree": result("inputs/tree.nwk", dataset=dataset)}
    if slices.computes_targets(CONFIG, dataset, model):
        return tree
    learned = slices.distances(CONFIG, dataset, model)
    files = {"distances": distance_views(dataset, learned)}
    if slices.subsamples_rows(CONFIG, dataset, model):
        files |= tree
    return files


def pretraining_files(wildcards):
    """Return the targets of a pretraining, what it starts from, and what names its studies.

    With a start, also the whole sequences: in tokens that are cut, reverse complements of the reads
    that the start knows cannot be recognized.
    """
    files = target_files(wildcards)
    dataset = wildcards.dataset
    if CONFIG.models[wildcards.model].pretrained_on:
        files["metadata"] = result("inputs/metadata.parquet", dataset=dataset)
    start = slices.start(CONFIG, dataset, wildcards.model)
    if start is None:
        return files
    files["sequences"] = result("inputs/sequences.fasta", dataset=dataset)
    if start.directory is not None:
        names = ("config.json", "model.safetensors")
        return files | {"start": [str(start.directory / name) for name in names]}
    folder = result("pretrain/{model}", dataset=start.dataset, model=start.model)
    # A directory has no checksum: see `starting_model`.
    embeddings = f"{folder}/embeddings.parquet"
    return files | {"start": [ancient(f"{folder}/model"), embeddings]}


def lineage_files(wildcards):
    """Return the taxa of features that have no file of sequences and no tree, where given.

    Without sequences they make the tree.
    """
    if CONFIG.datasets[wildcards.dataset].tree is not None:
        return {}
    return named_lineages(wildcards)


def named_lineages(wildcards):
    """Return the taxa of features that have no file of sequences, where given.

    Features are known by them in other tables.
    """
    section = CONFIG.datasets[wildcards.dataset]
    if section.sequences is not None or "taxonomy" not in user_files(CONFIG, section):
        return {}
    return taxonomy_file(wildcards)


def tree_file(wildcards):
    """Return the tree of a dataset, where it has one."""
    dataset = wildcards.dataset
    if not CONFIG.datasets[dataset].has_tree:
        return {}
    return {"tree": result("inputs/tree.nwk", dataset=dataset)}


def distance_views(dataset, metrics):
    """Return the distances of all views, metric by metric."""
    path = "unifrac/{metric}/view{view}.parquet"
    return [
        result(path, dataset=dataset, metric=metric, view=view)
        for metric in metrics
        for view in views(dataset)
    ]


def folds_file(wildcards):
    """Return the folds of a task."""
    owner = folds_owner(wildcards.task)
    return result("folds/{task}.tsv", dataset=wildcards.dataset, task=owner)


def taxonomy_file(wildcards):
    """Return the taxa of the features, where the dataset has them."""
    dataset = wildcards.dataset
    if not has_taxonomy(dataset):
        return {}
    return {"taxonomy": result("inputs/taxonomy.tsv", dataset=dataset)}


def has_taxonomy(dataset):
    """Return whether features have taxa, of the user or of a reference."""
    is_given = "taxonomy" in user_files(CONFIG, CONFIG.datasets[dataset])
    return is_given or slices.naming_genes(CONFIG, dataset) is not None


def baselines_file(wildcards):
    """Return the predictions of a task's baselines."""
    owner = baselines_owner(wildcards.task)
    return result(
        "baselines/{task}/by_baseline.tsv", dataset=wildcards.dataset, task=owner
    )


def nested_baselines_file(wildcards):
    """Return the nested predictions of a task's baselines."""
    owner = baselines_owner(wildcards.task)
    return result(
        "baselines/{task}/nested.parquet", dataset=wildcards.dataset, task=owner
    )


def covariate_predictions(wildcards):
    """Return what covariates of a task predict, alone and with features, where it has some."""
    task = wildcards.task
    if not CONFIG.tasks[task].covariates:
        return {}
    folder = result(
        "covariates/{task}", dataset=wildcards.dataset, task=covariates_owner(task)
    )
    return {
        "covariates": f"{folder}/by_method.tsv",
        "nested_covariates": f"{folder}/nested.parquet",
    }


def asked_answer(wildcards):
    """Return the predictions and folds of the task that a further question is about."""
    task = asked_task(wildcards.task)
    if task == wildcards.task:
        return {}
    return {
        "asked": result(
            "answers/{task}/{answer}/predictions.tsv",
            dataset=wildcards.dataset,
            task=task,
            answer=wildcards.answer,
        ),
        "asked_folds": result(
            "folds/{task}.tsv", dataset=wildcards.dataset, task=folds_owner(task)
        ),
    }


def starting_files(wildcards):
    """Return the weights that a pretraining starts from, where they are a directory's."""
    start = slices.start(CONFIG, wildcards.dataset, wildcards.model)
    if start is None or start.directory is None:
        return {}
    return {"weights": str(start.directory / "model.safetensors")}


def starting_model(wildcards):
    """Return the pretrained model of a task, or one per fold, unless the task starts from scratch.

    A directory has no checksum, so the embeddings, or the digests, stand for it: made by the same
    job, and compared by content.
    """
    training = resolved(CONFIG, "finetuning", task=wildcards.task)
    folder = result(
        "pretrain/{model}", dataset=wildcards.dataset, model=wildcards.model
    )
    if training.from_scratch:
        return {}
    if training.inductive:
        folder = f"{folder}/inductive/{inductive_owner(wildcards.task)}"
        return {
            "model": ancient(f"{folder}/encoders"),
            "digests": f"{folder}/digests.json",
        }
    return {
        "model": ancient(f"{folder}/model"),
        "embeddings": f"{folder}/embeddings.parquet",
        **frozen_asvs(wildcards),
    }


def frozen_asvs(wildcards):
    """Return the embeddings of all ASVs, where a task uses them as pretraining left them."""
    model = wildcards.get("model") or wildcards.answer
    training = resolved(CONFIG, "finetuning", task=wildcards.task)
    is_trained = training.from_scratch or training.recipe == "full"
    if model == FIRST or is_trained or training.inductive:
        return {}
    path = "pretrain/{model}/asvs.safetensors"
    return {"asvs": result(path, dataset=wildcards.dataset, model=model)}


def network_files(wildcards, **names):
    """Return files of fine-tuning by name, or none where baselines alone answer."""
    if wildcards.answer == FIRST:
        return {}
    path = "finetune/{model}/{task}"
    task = wildcards.task
    folder = result(path, dataset=wildcards.dataset, model=wildcards.answer, task=task)
    return {key: f"{folder}/{name}" for key, name in names.items()}


def network_predictions(wildcards):
    """Return what the networks of an answer predict."""
    return network_files(
        wildcards,
        predictions="networks.tsv",
        recipes="recipes.tsv",
        nested="nested.parquet",
    )


def method_predictions(wildcards):
    """Return what each method of an answer predicts: its baselines, and its networks, if any."""
    return {
        "baselines": baselines_file(wildcards),
        **network_files(wildcards, networks="networks.tsv"),
    }


def mixed_networks(wildcards):
    """Return the networks of an answer, and what a super learner mixes of their predictions."""
    files = network_files(
        wildcards,
        digests="digests.json",
        predictions="networks.tsv",
        nested="nested.parquet",
    )
    # A directory has no checksum: see `starting_model`.
    models = network_files(wildcards, model="model")
    return {**{key: ancient(path) for key, path in models.items()}, **files}


def clade_files(wildcards):
    """Return the clades that the labels depend on, for an answer that explains its predictions."""
    if wildcards.answer != FIRST or not CONFIG.tasks[wildcards.task].importance:
        return {}
    of = {"dataset": wildcards.dataset, "task": wildcards.task}
    return {
        "clades": result("clades/{task}.tsv", **of),
        "clade_features": result("clades/{task}.features.tsv", **of),
    }


def leading_method(wildcards):
    """Return what leads an answer: its super learner, or networks where nothing is mixed."""
    if wildcards.answer != FIRST and not slices.mixes(CONFIG, wildcards.task):
        files = network_files(wildcards, model="model", digests="digests.json")
        # A directory has no checksum: see `starting_model`.
        return {**files, "model": ancient(files["model"])}
    folder = "answers/{task}/{answer}"
    path = result(
        f"{folder}/super_learner",
        dataset=wildcards.dataset,
        task=wildcards.task,
        answer=wildcards.answer,
    )
    return {"model": ancient(path), "digest": f"{path}.json"}


def prediction_files(wildcards):
    """Return the table, and what else is given, that a prediction is made for."""
    section = CONFIG.predictions[wildcards.table]
    if section.table is None:
        return {"table": result("simulated/new_table.biom", dataset=wildcards.dataset)}
    return named_files(section, "table", "sequences", "metadata")
