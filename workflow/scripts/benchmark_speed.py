"""Time the modes of training on the data of a study."""

from stage_job import run_job

from aam.tasks.pretrain.inputs import PretrainInputs
from benchmarks.speed.ablation import measure_speed
from benchmarks.speed.variants import SpeedSettings

if __name__ == "__main__":
    with run_job(snakemake) as job:
        measure_speed(
            inputs=PretrainInputs.read(job.inputs),
            settings=SpeedSettings.read(job.settings),
            runtime=job.runtime,
            table_out=job.outputs["table"],
            text_out=job.outputs["text"],
            roofline_out=job.outputs["roofline"],
        )
