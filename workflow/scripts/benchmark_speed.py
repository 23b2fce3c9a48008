"""Time the modes of training on the data of a study."""

from stage_job import run_job

from aam.config.settings.training import SpeedSettings
from aam.tasks.pretrain.inputs import PretrainInputs
from benchmarks.speed.ablation import measure_speed

if __name__ == "__main__":
    with run_job(snakemake, SpeedSettings) as job:
        measure_speed(
            inputs=PretrainInputs.model_validate(job.inputs),
            settings=job.settings,
            runtime=job.runtime,
            table_out=job.outputs["table"],
            text_out=job.outputs["text"],
            roofline_out=job.outputs["roofline"],
        )
