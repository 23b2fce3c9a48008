"""Divide the samples of a task into folds."""

from stage_job import run_job

from aam.config.settings.tasks import FoldsSettings
from aam.stages.folds import divide_into_folds

if __name__ == "__main__":
    with run_job(snakemake, FoldsSettings) as job:
        divide_into_folds(
            metadata=job.inputs["metadata"],
            table=job.inputs["table"],
            settings=job.settings,
            folds_out=job.outputs["folds"],
            members_out=job.outputs["members"],
            notes_out=job.outputs["notes"],
        )
