"""Put the results of a dataset on a page."""

from stage_job import run_job

from aam.config.settings.page import PageSettings
from aam.report.page.files import PageFiles
from aam.stages.summary import write_summary

if __name__ == "__main__":
    with run_job(snakemake, PageSettings) as job:
        write_summary(
            files=PageFiles.of(job.inputs, settings=job.settings),
            settings=job.settings,
            summary_out=job.outputs["summary"],
            report_out=job.outputs["report"],
        )
