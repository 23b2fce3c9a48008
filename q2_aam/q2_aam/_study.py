"""A study in a folder of its own: its files, its configuration, its run and its page."""

import contextlib
import re
import shutil
import tempfile
from pathlib import Path
from urllib.parse import unquote

import biom
import yaml

from q2_aam._command import call_aam, check_version

LINK = re.compile(r"""(?:href|src)="([^":#?]+)(?=["#?])""")
"""A file that a page refers to; addresses and pictures within the page have a colon."""
ANSWER_FILES = ("answers/*/*/predictions.tsv", "answers/*/*/scores.json", "clades/*")
"""What a visualization holds beside its page and what the page refers to."""


class Study:
    """A study that `aam` answers, in a folder that is removed at the end.

    Its attributes are `folder`, `results`, the folder of the results of its run, and `tasks`, the
    names of its tasks, in the order of the columns.
    """

    def __init__(self, folder, config):
        self.folder = folder
        (dataset,) = config["datasets"]
        self.results = folder / "results" / dataset
        self.tasks = list(config["tasks"])

    def run(self, *targets, n_jobs):
        """Carry out its run.

        Parameters
        ----------
        *targets : str
            What the run makes; none: everything.
        n_jobs : int
            Processor cores.

        Raises
        ------
        ValueError
            The run failed.
        """
        call_aam("run", "study.yaml", *targets, "--cores", n_jobs, folder=self.folder)


@contextlib.contextmanager
def open_study(
    table,
    metadata,
    columns,
    *,
    rep_seqs=None,
    phylogeny=None,
    taxonomy=None,
    groups=None,
    sampling_depth=None,
    random_state=None,
    missing_samples="error",
    settings=None,
    has_networks=False,
):
    """Yield a study of some files, with the configuration that `aam init` proposes.

    Parameters
    ----------
    table : BIOMV210Format
        Feature table.
    metadata : qiime2.Metadata
        Metadata of its samples.
    columns : list of str
        Columns to predict.
    rep_seqs : DNAFASTAFormat, optional
        Sequences of the features.
    phylogeny : NewickFormat, optional
        Their rooted tree.
    taxonomy : TSVTaxonomyFormat, optional
        Their names.
    groups : str, optional
        Column whose samples stay together, or `false`.
    sampling_depth : int, optional
        Reads that are drawn of each sample.
    random_state : int, optional
        Seed of that draw and of the folds.
    missing_samples : {"error", "ignore"}
        What happens where samples of the table are not in the metadata.
    settings : str, optional
        Keys of a configuration in YAML.
    has_networks : bool
        Whether networks are trained even where `aam init` proposes none.

    Yields
    ------
    Study
        Ready to run.

    Raises
    ------
    ValueError
        The files do not fit together, a column cannot be predicted, or there is no command `aam`.
    """
    check_version()
    _check_columns(columns)
    _check_samples(table, metadata, missing_samples)
    changes = _read_settings(settings)
    with tempfile.TemporaryDirectory(prefix="q2-aam-") as name:
        folder = Path(name)
        options = []
        shutil.copy(str(table), str(folder / "table.biom"))
        metadata.save(str(folder / "metadata.tsv"))
        for option, file, view in (
            ("--sequences", "rep-seqs.fasta", rep_seqs),
            ("--tree", "phylogeny.nwk", phylogeny),
            ("--taxonomy", "taxonomy.tsv", taxonomy),
        ):
            if view is not None:
                shutil.copy(str(view), str(folder / file))
                options += [option, file]
        options += ["--columns", ",".join(columns)]
        if groups is not None:
            options += ["--groups", groups]
        if sampling_depth is not None:
            options += ["--depth", sampling_depth]
        call_aam(
            *("init", "table.biom", "metadata.tsv", *options, "--output", "study.yaml"),
            folder=folder,
        )
        config = _change_configuration(
            folder / "study.yaml", random_state, changes, has_networks=has_networks
        )
        yield Study(folder, config)


def write_page(study, name, output_dir):
    """Write a page as the visualization of a folder, with the files that it refers to.

    Parameters
    ----------
    study : Study
        A study whose run is complete.
    name : str
        Name of the page in its results.
    output_dir : str
        Folder of the visualization.
    """
    results = study.results
    output = Path(output_dir)
    text = (results / name).read_text(encoding="utf-8")
    files = {unquote(link) for link in LINK.findall(text)}
    files |= {str(path.relative_to(results)) for one in ANSWER_FILES for path in results.glob(one)}
    for file in sorted(files):
        source = results / file
        if source.is_file():
            target = output / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(str(source), str(target))
    shutil.copy(str(study.folder / "study.yaml"), str(output / "study.yaml"))
    (output / "index.html").write_text(text, encoding="utf-8")


def _check_columns(columns):
    """Refuse names that the option `--columns` of `aam init` would take apart."""
    for name in columns:
        if "," in name:
            raise ValueError(
                f"columns: got {name!r}; expected names without commas. Hint: rename the column in "
                "the metadata"
            )


def _check_samples(table, metadata, missing_samples):
    """Refuse tables whose samples are not in the metadata."""
    names = list(biom.load_table(str(table)).ids(axis="sample"))
    known = set(metadata.ids)
    missing = [name for name in names if name not in known]
    if len(missing) == len(names):
        raise ValueError(
            f"table: got {len(names)} samples, such as {names[0]!r}, of which the metadata have "
            f"none; the metadata have samples such as {metadata.ids[0]!r}. Hint: give the metadata "
            "of this table, with its sample IDs"
        )
    if missing and missing_samples == "error":
        raise ValueError(
            f"table: got {len(missing)} of {len(names)} samples that are not in the metadata, such "
            f"as {missing[0]!r}. Hint: add them to the metadata, or set the parameter "
            "missing-samples to ignore"
        )


def _read_settings(text):
    """Return the keys that the parameter `settings` has."""
    if text is None:
        return {}
    try:
        keys = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"settings: got {text!r}, which is no YAML: {error}") from error
    if not isinstance(keys, dict):
        raise ValueError(
            f"settings: got {text!r}; expected keys of AAM's configuration. Hint: write "
            "'rarefaction: {depth: 1000}', with the keys of docs/reference/configuration.md"
        )
    return keys


def _change_configuration(path, random_state, changes, *, has_networks):
    """Lay seeds and keys over the configuration in a file, and return it."""
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    if has_networks and not config["models"]:
        config["models"] = {"base": {}}
    if random_state is not None:
        config.setdefault("rarefaction", {})["seed"] = random_state
        for task in config["tasks"].values():
            task["folds"]["seed"] = random_state
    _lay_over(config, changes)
    path.write_text(yaml.safe_dump(config, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return config


def _lay_over(base, changes):
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(base.get(key), dict):
            _lay_over(base[key], value)
        else:
            base[key] = value
