"""The visualizers: pages of results. `plugin_setup` describes their parameters."""

import qiime2
from q2_types.feature_data import DNAFASTAFormat, TSVTaxonomyFormat
from q2_types.feature_table import BIOMV210Format
from q2_types.tree import NewickFormat

from q2_aam._study import open_study, write_page


def first_answer(
    output_dir: str,
    table: BIOMV210Format,
    metadata: qiime2.Metadata,
    columns: list,
    rep_seqs: DNAFASTAFormat = None,
    phylogeny: NewickFormat = None,
    taxonomy: TSVTaxonomyFormat = None,
    groups: str = None,
    sampling_depth: int = None,
    random_state: int = None,
    n_jobs: int = 1,
    missing_samples: str = "error",
    settings: str = None,
) -> None:
    """Write the page of the first answers, by methods that take no training of networks."""
    with open_study(
        table,
        metadata,
        columns,
        rep_seqs=rep_seqs,
        phylogeny=phylogeny,
        taxonomy=taxonomy,
        groups=groups,
        sampling_depth=sampling_depth,
        random_state=random_state,
        missing_samples=missing_samples,
        settings=settings,
    ) as study:
        study.run("first", n_jobs=n_jobs)
        write_page(study, "first.html", output_dir)


def report(
    output_dir: str,
    table: BIOMV210Format,
    metadata: qiime2.Metadata,
    columns: list,
    rep_seqs: DNAFASTAFormat = None,
    phylogeny: NewickFormat = None,
    taxonomy: TSVTaxonomyFormat = None,
    groups: str = None,
    sampling_depth: int = None,
    random_state: int = None,
    n_jobs: int = 1,
    missing_samples: str = "error",
    settings: str = None,
) -> None:
    """Write the page of everything, networks included."""
    with open_study(
        table,
        metadata,
        columns,
        rep_seqs=rep_seqs,
        phylogeny=phylogeny,
        taxonomy=taxonomy,
        groups=groups,
        sampling_depth=sampling_depth,
        random_state=random_state,
        missing_samples=missing_samples,
        settings=settings,
        has_networks=True,
    ) as study:
        study.run(n_jobs=n_jobs)
        write_page(study, "report.html", output_dir)
