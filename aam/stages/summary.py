"""What was learned from a dataset, in plain words, with links to every figure and table."""

import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from aam.evaluate.summary import Results, summary_page, terminal_lines
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.util.atomic import read_json, write_text
from aam.util.errors import InputError, problem

WHAT = {
    "accuracy": "accuracy of all models and baselines",
    "own": "cross-validated predictions",
    "intervals": "prediction intervals, or sets of classes",
    "importance": "importance of the ASVs",
    "predictions": "predictions for another table",
    "speed": "speed of training",
    "dropped": "left out",
}
"""What the tables of an input hold."""
OF_TASKS = {
    "own": "predictions.tsv",
    "intervals": "intervals.tsv",
    "importance": "importance.tsv",
}
"""Tables beside the `metrics.json` of a fine-tuning."""


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Write the summary into the folder of the dataset's results, so that its links are short."""
    root, finetune = outputs["summary"].parent, inputs.get("finetune", [])
    listed = {name: inputs.get(name, []) for name in ("predictions", "dropped")}
    listed |= {name: [path.with_name(file) for path in finetune] for name, file in OF_TASKS.items()}
    listed |= {name: [inputs[name]] for name in ("speed", "accuracy") if name in inputs}

    def link(path: Path) -> str:
        return Path(os.path.relpath(path, root)).as_posix()

    results = _results(
        root.name,
        inputs["pretrain"],
        finetune,
        inputs.get("speed"),
        dropped=[sentence for path in listed["dropped"] for sentence in _sentences(path)],
        figures=[link(path) for path in inputs.get("figures", [])],
        tables=[(WHAT[name], link(path)) for name in WHAT for path in listed.get(name, [])],
    )
    write_text(outputs["summary"], summary_page(results))


def terminal_summary(results_dir: Path) -> str:
    """Return a few lines on the results in a folder such as `results/demo`.

    Raises
    ------
    InputError
        If no model has been pretrained there.
    """
    pretrain = sorted(results_dir.glob("pretrain/*/metrics.json"))
    if not pretrain:
        raise problem(
            results_dir,
            "no pretrain/<model>/metrics.json below it",
            "the folder of a dataset's results",
            "run the workflow first, with `make demo` for instance",
        )
    finetune = sorted(results_dir.glob("finetune/*/*/metrics.json"))
    speed = results_dir / "benchmark" / "speed.tsv"
    results = _results(results_dir.name, pretrain, finetune, speed if speed.is_file() else None)
    lines = terminal_lines(results)
    for label, name in (("read", "summary.md"), ("figures", "figures")):
        if (results_dir / name).exists():
            lines.append(f"  {label}: {results_dir / name}")
    return "\n".join(lines)


def _results(
    dataset: str,
    pretrain: Iterable[Path],
    finetune: Iterable[Path],
    speed: Path | None,
    **listed: Sequence[Any],
) -> Results:
    return Results(
        dataset=dataset,
        pretraining={path.parent.name: read_json(path) for path in pretrain},
        tasks=[read_json(path) for path in finetune],
        speed=None if speed is None else pd.read_csv(speed, sep="\t"),
        **listed,
    )


def _sentences(dropped: Path) -> list[str]:
    """Count what a table of dropped things lists: by reason, or by rarefaction depth."""
    table = pd.read_csv(dropped, sep="\t", dtype=str, keep_default_na=False)
    if "why" in table:
        kinds = Counter(zip(table["what"], table["why"], strict=True))
        return [f"{what}: {count}, {why}" for (what, why), count in sorted(kinds.items())]
    return [
        f"sample: {count}, with fewer than {depth} reads, the rarefaction depth"
        for depth, count in sorted(Counter(table["depth"]).items())
    ]


if __name__ == "__main__":
    try:
        print(terminal_summary(Path(sys.argv[1])))
    except InputError as error:
        sys.exit(str(error))
