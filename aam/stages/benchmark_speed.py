"""The speed table: a naive training step against the optimized one."""

from pathlib import Path

from aam.bench.ablation import run_ablation
from aam.bench.subprocess_runner import SubprocessRunner
from aam.bench.tables import about_run
from aam.bench.variants import SpeedSettings
from aam.tasks.pretrain.inputs import PretrainInputs
from aam.util.run_options import RunOptions


def measure_speed(
    *,
    inputs: PretrainInputs,
    settings: SpeedSettings,
    runtime: RunOptions,
    table_out: Path,
    text_out: Path,
    roofline_out: Path,
) -> None:
    """Time every variant of a training step on the data of a study.

    Parameters
    ----------
    inputs
        Files of the pretraining that is timed: tokens, samples, and distances or a tree.
    settings
        The model that is timed, how often and at which batch sizes.
    runtime
        Threads, memory and devices.
    table_out
        TSV file to write, with a row per variant.
    text_out
        Markdown file to write.
    roofline_out
        JSON file to write: what the machine can do at best.
    """
    files = inputs.named()
    with SubprocessRunner() as measure:
        ablation = run_ablation(measure, settings, files, runtime)
    about = about_run(settings.plain(), files, ablation.device, runtime.threads)
    outputs = {"table": table_out, "text": text_out, "roofline": roofline_out}
    ablation.write(outputs, about)
