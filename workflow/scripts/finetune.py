"""Fine-tune and cross-validate the models of a task."""

from stage_job import run_job

from aam.stages.finetune import finetune_task
from aam.tasks.finetune.inputs import FinetuneInputs
from aam.tasks.finetune.settings import FinetuneSettings
from aam.util.digests import provenance

if __name__ == "__main__":
    with run_job(snakemake) as job:
        finetune_task(
            inputs=FinetuneInputs.read(job.inputs),
            settings=FinetuneSettings.read(job.settings),
            runtime=job.runtime,
            model_out=job.outputs["model"],
            predictions_out=job.outputs["predictions"],
            digests_out=job.outputs["digests"],
            history_out=job.outputs["history"],
            recipes_out=job.outputs["recipes"],
            nested_out=job.outputs["nested"],
            provenance=provenance(job.settings, job.inputs),
        )
