"""Put the results of a dataset on a page."""

from stage_job import run_job

from aam.report.page.files import PageFile, PageFiles
from aam.stages.summary import write_summary

if __name__ == "__main__":
    with run_job(snakemake) as job:
        files = {
            kind: PageFile.pair(job.inputs.get(kind, []), facts)
            for kind, facts in job.settings["files"].items()
        }
        write_summary(
            files=PageFiles(
                **files,
                accuracy=job.inputs.get("accuracy"),
                dropped=job.inputs["dropped"],
                notes=job.inputs["notes"],
                table=job.inputs["table"],
                sequences=job.inputs.get("sequences"),
            ),
            settings=job.settings,
            captions=job.settings["captions"],
            summary_out=job.outputs["summary"],
            report_out=job.outputs["report"],
        )
