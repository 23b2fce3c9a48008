"""Time the modes of training on the data of a study."""

from stage_job import run_job

from aam.stages.benchmark_speed import measure_speed
from aam.tasks.pretrain.settings import PretrainSettings

if __name__ == "__main__":
    with run_job(snakemake) as job:
        measure_speed(
            tokens=job.inputs["tokens"],
            samples=job.inputs["samples"],
            distances=job.inputs.get("distances"),
            tree=job.inputs.get("tree"),
            settings=PretrainSettings.read(job.settings),
            batch_sizes=job.settings["batch_sizes"],
            alone_batch_size=job.settings["alone_batch_size"],
            seconds=job.settings["seconds"],
            repeats=job.settings["repeats"],
            naive_asvs=job.settings["naive_asvs"],
            runtime=job.runtime,
            table_out=job.outputs["table"],
            text_out=job.outputs["text"],
            roofline_out=job.outputs["roofline"],
        )
