"""The speed table: a naive training step against the optimized one."""

from collections.abc import Sequence
from pathlib import Path

from aam.bench.ablation import run_ablation
from aam.bench.subprocess_runner import SubprocessRunner
from aam.bench.tables import about_run
from aam.runtime.run_options import RunOptions
from aam.tasks.pretrain.settings import PretrainSettings


def measure_speed(
    *,
    tokens: Path,
    samples: Path,
    distances: Sequence[Path] | None = None,
    tree: Path | None = None,
    settings: PretrainSettings,
    batch_sizes: Sequence[int],
    alone_batch_size: int | None = None,
    seconds: float,
    repeats: int,
    naive_asvs: int,
    runtime: RunOptions,
    table_out: Path,
    text_out: Path,
    roofline_out: Path,
) -> None:
    """Time every variant of a training step on the data of a study.

    Parameters
    ----------
    tokens, samples
        Arrow files of tokens and samples.
    distances
        Parquet files of the distances to learn. None: they are computed in the batch.
    tree
        Newick file with a tip for every ASV, for distances that are computed in the batch.
    settings
        Architecture, training and optimization of the model that is timed.
    batch_sizes
        Samples in a batch; the last modes are timed at all of them, the others at the first.
    alone_batch_size
        Batch size at which each change is timed alone. None: none is.
    seconds
        How long a mode is timed in each repeat.
    repeats
        How often each mode is timed, in a process of its own.
    naive_asvs
        ASVs that every sample of the naive step is padded to.
    runtime
        Threads, memory and devices.
    table_out
        TSV file to write, with a row per variant.
    text_out
        Markdown file to write.
    roofline_out
        JSON file to write: what the machine can do at best.
    """
    files = {"tokens": tokens, "samples": samples, "distances": distances, "tree": tree}
    inputs = {name: value for name, value in files.items() if value is not None}
    cfg = {
        "batch_sizes": batch_sizes,
        "alone_batch_size": alone_batch_size,
        "seconds": seconds,
        "repeats": repeats,
        "naive_asvs": naive_asvs,
        **settings.plain(),
    }
    with SubprocessRunner() as measure:
        ablation = run_ablation(measure, cfg, inputs, runtime)
    about = about_run(cfg, inputs, ablation.device, runtime.threads)
    outputs = {"table": table_out, "text": text_out, "roofline": roofline_out}
    ablation.write(outputs, about)
