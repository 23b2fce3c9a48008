"""Check the user's tree, or make one."""

from stage_job import run_job

from aam.stages.import_tree import import_tree

if __name__ == "__main__":
    with run_job(snakemake) as job:
        import_tree(
            table=job.inputs["table"],
            sequences=job.inputs["sequences"],
            tree=job.inputs.get("tree"),
            dropped=job.inputs["dropped"],
            root=job.settings["root"],
            reference=job.settings.get("reference"),
            candidates=[*job.settings.get("digests", {})],
            threads=job.runtime.threads,
            work=job.runtime.work,
            tree_out=job.outputs["tree"],
            notes_out=job.outputs["notes"],
        )
