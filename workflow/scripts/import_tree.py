"""Check the user's tree, or make one."""

from stage_job import run_job

from aam.config.settings.data import ImportTreeSettings
from aam.stages.import_tree import import_tree

if __name__ == "__main__":
    with run_job(snakemake, ImportTreeSettings) as job:
        import_tree(
            table=job.inputs["table"],
            sequences=job.inputs["sequences"],
            tree=job.inputs.get("tree"),
            dropped=job.inputs["dropped"],
            taxonomy=job.inputs.get("taxonomy"),
            reference=job.settings.reference,
            candidates=[*job.settings.digests],
            genes=job.inputs.get("genes"),
            threads=job.runtime.threads,
            work=job.runtime.work,
            tree_out=job.outputs["tree"],
            notes_out=job.outputs["notes"],
        )
