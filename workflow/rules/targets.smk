"""The results of a dataset: what targets ask for."""

ANSWER_SCORES = "answers/{task}/{answer}/scores.json"


def tasks_of(dataset):
    """Return the names of a dataset's tasks."""
    return [name for name, task in CONFIG.tasks.items() if task.dataset == dataset]


def data_of(dataset):
    """Return everything that is made of a dataset before training."""
    metrics = metrics_of(CONFIG, dataset)
    counted = CONFIG.datasets[dataset].is_counted
    # Networks alone read the store of samples.
    read_by_networks = ["views/samples.arrow"] if CONFIG.models else []
    return [
        *([result("rarefied/curve.tsv", dataset=dataset)] if counted else []),
        result("inputs/metadata.parquet", dataset=dataset),
        *(result(path, dataset=dataset) for path in read_by_networks),
        *distance_views(dataset, metrics),
    ]


def notes_of(dataset):
    """Return what was decided for the user about a dataset and its tasks, file by file."""
    section = CONFIG.datasets[dataset]
    metrics = metrics_of(CONFIG, dataset)
    read = ["table", "metadata"]
    needs_tree = tasks_of(dataset) or any(
        METRICS[metric].phylogenetic for metric in metrics
    )
    if section.has_tree and needs_tree:
        read.append("tree")
    if has_taxonomy(dataset):
        read.append("taxonomy")
    owners = dict.fromkeys(map(folds_owner, tasks_of(dataset)))
    return [
        *(result(f"inputs/notes/{name}.tsv", dataset=dataset) for name in read),
        *(
            result("folds/{task}.notes.tsv", dataset=dataset, task=task)
            for task in owners
        ),
    ]


def explained_tasks_of(dataset):
    """Return the names of a dataset's tasks whose predictions are explained."""
    return [name for name in tasks_of(dataset) if CONFIG.tasks[name].importance]


def result_files(dataset, path, tasks=None):
    """Return a file of a dataset for each of the tasks and models, or answers, that its path names.

    By file the `model` and the `task`, as far as they are named. Without `tasks` they are all of
    the dataset.
    """
    tasks = tasks_of(dataset) if tasks is None else tasks
    return {
        result(path, dataset=dataset, model=model, answer=model, task=task): {
            "model": model,
            "task": task,
        }
        for task in (tasks if "{task}" in path else [""])
        for model in (CONFIG.models if re.search("{model}|{answer}", path) else [""])
    }


def pretraining_of(dataset):
    """Return the scores of every encoder on a dataset, with its model."""
    return result_files(dataset, "pretrain/{model}/scores.json")


def finetuning_of(dataset):
    """Return the scores of every model and task of a dataset."""
    return list(result_files(dataset, ANSWER_SCORES))


def first_of(dataset, path):
    """Return a file of a dataset for each of the tasks that have a first answer, with the task."""
    return {
        result(path, dataset=dataset, task=task, answer=FIRST): {
            "model": FIRST,
            "task": task,
        }
        for task in tasks_of(dataset)
        if slices.has_first(CONFIG, task)
    }


def first_page_of(dataset):
    """Return the page of the first answers and what it shows, where a dataset has tasks."""
    if not tasks_of(dataset):
        return []
    # A file that somebody deleted is made again only where it is asked for by itself.
    shown = [path for files in first_page_files(dataset).values() for path in files]
    pages = [result(name, dataset=dataset) for name in ("first.md", "first.html")]
    return [*shown, *pages]


def answers_of(dataset, path):
    """Return a file of every answer of a dataset: of its models, or without any of its baselines."""
    files = result_files if CONFIG.models else first_of
    return files(dataset, path)


def predictions_of(dataset):
    """Return the predictions of a dataset's tasks for other tables, with what each is of."""
    return {
        result(path, dataset=dataset, task=task, table=table): {
            **predicted_by,
            "task": task,
            "table": table,
        }
        for table, section in CONFIG.predictions.items()
        for task in section.tasks
        if CONFIG.tasks[task].dataset == dataset
        for path, predicted_by in result_paths.predictions(CONFIG, task).items()
    }


def effects_of(dataset):
    """Return what clades moved predictions by answers without networks, with what each is of."""
    return {
        path.removesuffix(".tsv") + ".clades.tsv": of
        for path, of in predictions_of(dataset).items()
        if of["model"] == FIRST and CONFIG.tasks[of["task"]].importance
    }


def clade_losses_of(dataset):
    """Return what networks, or answers without them, lose without each named clade.

    With what each file is of.
    """
    if CONFIG.models:
        path = "finetune/{model}/{task}/clades.tsv"
        return result_files(dataset, path, explained_tasks_of(dataset))
    return explained_of(first_of(dataset, "answers/{task}/{answer}/clade_losses.tsv"))


def prediction_notes_of(dataset):
    """Return what was decided for the user about the tables to predict for."""
    return [
        path.removesuffix(".tsv") + ".notes.tsv" for path in predictions_of(dataset)
    ]


exports = cache(partial(result_paths.exports, CONFIG))


def exports_of(dataset):
    """Return the results of a dataset that QIIME 2 reads, where they are asked for."""
    places = exports(dataset) if CONFIG.outputs.qza else []
    return [result(f"{place}.qza", dataset=dataset) for place in places]


def accuracy_file(wildcards):
    """Return the accuracy table, where the dataset has tasks."""
    path = result("benchmark/accuracy.tsv", dataset=wildcards.dataset)
    return {"accuracy": path} if finetuning_of(wildcards.dataset) else {}


def drawn_files(figure, files):
    """Return figures with the path that `aam.config.figures` has for them."""
    return {path: {**of, "figure": figure} for path, of in files.items()}


def explained_of(files):
    """Return those of some files whose tasks are explained."""
    return {
        path: of for path, of in files.items() if CONFIG.tasks[of["task"]].importance
    }


def answers_shown(plot, files):
    """Return the files of answers that a plot is shown of."""
    asked = {
        path: of
        for path, of in files.items()
        if question_of(of["task"]) == plot.question
    }
    if plot.has_times:
        asked = {
            path: of
            for path, of in asked.items()
            if CONFIG.tasks[of["task"]].time is not None
        }
    return explained_of(asked) if plot.explains else asked


def first_figures_of(dataset):
    """Return the figures of the first answers, with what each is of."""
    files = {}
    for plot in PLOTS.values():
        for figure in plot.figures if plot.shown == "answers" else ():
            path = f"figures/{figure.path_stem}.svg"
            answers = first_of(dataset, path)
            files |= drawn_files(figure.path_stem, answers_shown(plot, answers))
    return files


def figures_of(dataset):
    """Return the figures of a dataset's summary, with what each is of."""
    always = {"always"} if CONFIG.datasets[dataset].is_counted else set()
    shown = always | {"explained"} | ({"tasks"} if finetuning_of(dataset) else set())
    files = {}
    for plot in PLOTS.values():
        tasks = explained_tasks_of(dataset) if plot.shown == "explained" else None
        for figure in plot.figures:
            path = f"figures/{figure.path_stem}.svg"
            if plot.shown == "answers":
                answers = answers_of(dataset, path)
                files |= drawn_files(figure.path_stem, answers_shown(plot, answers))
            elif plot.shown in shown:
                files |= drawn_files(
                    figure.path_stem, result_files(dataset, path, tasks)
                )
    return files


def page_files(dataset):
    """Return the files that the page of a dataset shows, with what each is of, by their kind."""
    return {
        "scores": answers_of(dataset, ANSWER_SCORES),
        "cross_validated": answers_of(
            dataset, "answers/{task}/{answer}/predictions.tsv"
        ),
        "clades": explained_of(answers_of(dataset, "clades/{task}.tsv")),
        "clade_features": explained_of(
            answers_of(dataset, "clades/{task}.features.tsv")
        ),
        "clade_losses": clade_losses_of(dataset),
        "importance": result_files(
            dataset,
            "finetune/{model}/{task}/importance.tsv",
            explained_tasks_of(dataset),
        ),
        "encoders": pretraining_of(dataset),
        "predictions": predictions_of(dataset),
        "effects": effects_of(dataset),
        "figures": figures_of(dataset),
    }


def first_page_files(dataset):
    """Return the files that the page of first answers shows, as `page_files` does."""
    return {
        "scores": first_of(dataset, ANSWER_SCORES),
        "cross_validated": first_of(dataset, "answers/{task}/{answer}/predictions.tsv"),
        "clades": explained_of(first_of(dataset, "clades/{task}.tsv")),
        "figures": first_figures_of(dataset),
    }


def page_input(files, kind):
    """Return the input function of the files of a kind that a page shows."""
    return lambda wildcards: list(files(wildcards.dataset)[kind])


def page_facts(files, dataset):
    """Return what the files of a page are of, in the order of the inputs of each kind."""
    return {kind: list(of.values()) for kind, of in files(dataset).items()}


def bench_of(dataset):
    """Return the table and the figure of speed, where there is a model to time."""
    if not CONFIG.models:
        return []
    return [
        result(path, dataset=dataset)
        for path in ("benchmark/speed.md", "figures/speed.svg")
    ]


def everything_of(dataset):
    """Return all results of a dataset, the summary last."""
    return [
        *first_page_of(dataset),
        *data_of(dataset),
        *pretraining_of(dataset),
        *finetuning_of(dataset),
        *predictions_of(dataset),
        *effects_of(dataset),
        *exports_of(dataset),
        *(path for files in page_files(dataset).values() for path in files),
        result("report.html", dataset=dataset),
        result("summary.md", dataset=dataset),
    ]


def is_news(path):
    """Return whether this run wrote a result."""
    return path.is_file() and path.stat().st_mtime >= STARTED


def say_closing(is_told):
    """Print what a run ends with: the answers of each page that `is_told` accepts by its path."""
    for dataset in CONFIG.datasets:
        scores_of_page = {
            "report.html": answers_of(dataset, ANSWER_SCORES),
            "first.html": first_of(dataset, ANSWER_SCORES),
        }
        pages = [Path(result(name, dataset=dataset)) for name in scores_of_page]
        told = [page for page in pages if is_told(page)]
        if told:
            # Not above: it takes a second, and the file is parsed again in every job.
            from aam.stages.summary import closing_summary

            rarefaction = resolved(CONFIG, "rarefaction", dataset=dataset)
            closing = closing_summary(
                told[0],
                [*map(Path, scores_of_page[told[0].name])],
                notes=[*map(Path, notes_of(dataset))],
                drops_long_branches=rarefaction.long_branches == "drop",
                left_over=list(result_paths.left_over_answers(CONFIG, dataset)),
                older=list(result_paths.older_answers(CONFIG, dataset)),
            )
            print(f"\n{closing}")
        # Of what earlier runs predicted only that is named which the page shows.
        is_shown = any(page.name == "report.html" for page in told)
        predicted = [
            path
            for path in map(Path, predictions_of(dataset))
            if (is_shown and path.is_file()) or is_news(path)
        ]
        if predicted:
            from aam.stages.summary import closing_predictions

            table = Path(result("inputs/table.biom", dataset=dataset))
            for line in closing_predictions(predicted, table):
                print(line)


def say_closing_of_nothing():
    """Print the answers of the pages that were asked for, where all of them are there already."""
    dag = workflow.dag
    # There is a scheduler once all jobs are known and the results are no other run's.
    was_ready = workflow.scheduler is not None
    if not was_ready or workflow.dryrun or workflow.touch or len(dag):
        return
    made = {Path(str(path)) for job in dag.jobs for path in job.output}
    say_closing(lambda page: page in made and page.is_file())
