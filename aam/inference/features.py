"""Features of samples for anyone's scikit-learn pipeline: clades, log-ratios of clades, embeddings.

Shape suffixes: N samples, F columns of the table, B branches of the whole tree, E chosen branches,
D width of an embedding.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import (
    _check_feature_names_in,
    check_array,
    check_is_fitted,
    check_non_negative,
    validate_data,
)

from aam.config.references import REFERENCES, gene_references
from aam.data.importing.tree import load_tree
from aam.data.table import FeatureTable, TableFacts
from aam.reference_tree.phylogeny import FEATURE_READS, ReferencePhylogeny, table_sequences
from aam.reference_tree.tree import ROOT, KnownTips, number_nodes
from aam.util.errors import count_names, problem
from aam.util.missing_files import expand_home

if TYPE_CHECKING:
    from aam.inference.pretrained import PretrainedEncoder

Kind = Literal["clades", "ratios", "embedding"]
ENCODER = "aam_encoder"
"""Key of `AnnData.uns` that names the folder of a pretrained encoder."""
SEQUENCE = "sequence"
"""Column of `AnnData.var` that has the sequences."""
_PLACE = Path("X")
"""What messages call the table."""


class SampleFeatures(TransformerMixin, BaseEstimator):
    """What samples have below the branches of a tree, or their embeddings, from reads of ASVs.

    With the fraction p of its reads below a branch, a sample has log(1 + 2000 p) there, nearly the
    logarithm of the reads below the branch, of 1000 in all, whatever its depth. `fit` chooses the
    branches, by its samples alone.

    Parameters
    ----------
    source
        `v4`, `greengenes` or another reference that `aam.reference` takes by its name, in which
        every sequence is placed; a file of a rooted tree with the columns at its tips, Newick or
        .qza; the folder of a pretrained encoder, for embeddings; or None: no tree, each column is a
        clade of its own.
    kind
        `clades`: log(1 + 2000 p) times the root of the branch's length, so that long branches count
        more, and related ASVs together (`ReferencePhylogeny.features`). `ratios`: the difference of
        the logarithms of a clade and of its siblings together, unweighted, as the balances of
        PhILR (Silverman et al. 2017, doi:10.7554/eLife.21887); two siblings have one ratio.
        `embedding`: what the encoder makes of the sample.
    sequences
        FASTA or .qza, or sequences by column name, where the names are not the sequences. Trees of
        your own and None read no sequences.
    columns
        Names of the columns where X is an array or a sparse matrix, sequences or IDs. Data frames
        bring their own.
    min_prevalence
        Least fraction of the samples of `fit` that have reads below a branch, and for ratios below
        its siblings, too. Where no branch has it, those that most samples have are taken.
        Embeddings do not use it.

    Attributes
    ----------
    n_features_in_, feature_names_in_
        As in all of scikit-learn.

    Notes
    -----
    With a source, `transform` takes data frames of other ASVs than `fit` did: those of a new study.
    """

    def __init__(
        self,
        source: str | Path | None = "v4",
        kind: Kind = "clades",
        *,
        sequences: str | Path | Mapping[str, str] | None = None,
        columns: Sequence[str] | None = None,
        min_prevalence: float = 0.01,
    ) -> None:
        self.source = source
        self.kind = kind
        self.sequences = sequences
        self.columns = columns
        self.min_prevalence = min_prevalence

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Choose the branches.

        Parameters
        ----------
        X
            Reads or amounts, samples by columns: a data frame, an array or a sparse matrix.
        y
            Not used.

        Raises
        ------
        InputError
            An option, a file or a name of a column is wrong; the message says which.
        ValueError
            X holds negative or missing numbers.
        """
        self._check_options()
        values_NF = self._read(X, is_fit=True)
        if self.kind == "embedding":
            assert self.source is not None, "options were checked"
            self._encoder = _load_encoder(self.source)
            if not self._encoder.facts.has_sequences:
                hint = "use aam.encoder(...).embed, which takes the lineages of the table"
                raise problem(self.source, "an encoder of lineages", "one of sequences", hint)
            return self
        names = self._names(X, values_NF.shape[1])
        self._tips, tip_names, above_FB = self._branches(names)
        # Whole numbers: differences of them are exact.
        found_NB = csr_array((values_NF > 0).astype(np.float64) @ above_FB)
        candidates = np.setdiff1d(np.flatnonzero(above_FB.sum(axis=0)), [ROOT])
        if not len(candidates):
            expected = "sequences near the reference"
            raise problem("X", f"{len(names)} columns far from it", expected, "choose another one")
        prevalence = np.asarray((found_NB > 0)[:, candidates].mean(axis=0)).ravel()
        if self.kind == "ratios":
            candidates, prevalence = self._with_siblings(found_NB, candidates, prevalence)
        least = min(self.min_prevalence, prevalence.max())
        self._chosen_E = candidates[prevalence >= least]
        self._members_FE = above_FB[:, self._chosen_E].tocsc()
        self._columns = names
        ending = ":siblings" if self.kind == "ratios" else ""
        self._out = [tip_names.get(node, f"clade_{node}") + ending for node in self._chosen_E]
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.floating]:
        """Return the features of samples.

        Parameters
        ----------
        X
            As for `fit`; with a source, a data frame may have other columns.

        Returns
        -------
        numpy.ndarray
            [N, E] or [N, D], a row per row of X. A sample without reads has zeros.

        Raises
        ------
        InputError
            A column has no sequence or is not in the tree; or, for embeddings, a sample has no
            reads, or X holds amounts where the encoder was trained on reads.
        ValueError
            X holds negative or missing numbers, or other columns than `fit` saw.
        """
        check_is_fitted(self)
        values_NF = self._read(X, is_fit=False)
        if self.kind == "embedding":
            return self._embed(values_NF, self._names(X, values_NF.shape[1]))
        _, _, above_FB = self._branches(self._names(X, values_NF.shape[1]))
        below_NB = csr_array(values_NF @ above_FB).tocsc()
        below_NE = below_NB[:, self._chosen_E].toarray()
        total_N = np.asarray(values_NF.sum(axis=1), np.float64)
        per_read_N1 = (2 * FEATURE_READS / np.where(total_N > 0, total_N, 1.0))[:, None]
        logs_NE = np.log1p(below_NE * per_read_N1)
        if self.kind == "ratios":
            parent_NE = below_NB[:, self._tips.parent_B[self._chosen_E]].toarray()
            # Sums of amounts round differently, which must not make a rest below 0.
            siblings_NE = np.maximum(parent_NE - below_NE, 0)
            return logs_NE - np.log1p(siblings_NE * per_read_N1)
        return logs_NE * np.sqrt(self._tips.length_B[self._chosen_E].astype(np.float64))

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return the names of the features.

        Parameters
        ----------
        input_features
            Ignored, but for the check that they are those of `fit`.

        Returns
        -------
        numpy.ndarray
            A tip of your tree has its own name, an inner branch `clade_` and its number, which in
            a reference is the same in every study. Ratios end in `:siblings`.
        """
        check_is_fitted(self)
        _check_feature_names_in(self, input_features)
        if self.kind == "embedding":
            width = self._encoder.encoder.shape.width
            return np.array([f"embedding_{number}" for number in range(width)], dtype=object)
        return np.array(self._out, dtype=object)

    def members(self, name: str) -> list[str]:
        """Return the columns of `fit` that lie in a clade.

        Parameters
        ----------
        name
            One of `get_feature_names_out`, of clades or ratios.

        Raises
        ------
        InputError
            There is no such clade.
        """
        names = self.get_feature_names_out().tolist()
        if self.kind == "embedding" or name not in names:
            expected = "a clade of get_feature_names_out()"
            raise problem("members", repr(name), expected, "choose one of them")
        rows = self._members_FE[:, [names.index(name)]].nonzero()[0]
        return [self._columns[row] for row in rows]

    def __sklearn_tags__(self) -> Any:
        """Say to scikit-learn what X may be."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags

    def _check_options(self) -> None:
        if self.kind not in get_args(Kind):
            expected = f"one of {', '.join(get_args(Kind))}"
            raise problem("kind", repr(self.kind), expected, "choose one of them")
        is_folder = self.source is not None and expand_home(self.source).is_dir()
        if is_folder != (self.kind == "embedding"):
            expected = "an encoder's folder with kind='embedding', a tree or None with the others"
            actual = f"{self.source!r} with kind={self.kind!r}"
            raise problem("source", actual, expected, "change one of the two")
        if not 0 <= self.min_prevalence <= 1:
            actual = str(self.min_prevalence)
            raise problem("min_prevalence", actual, "a fraction, 0 to 1", "correct it")
        reads_sequences = is_folder or _is_reference(self.source)
        if self.sequences is not None and not reads_sequences:
            hint = "leave `sequences` out, or choose a reference such as source='v4'"
            raise problem("sequences", f"them, with source={self.source!r}", "none", hint)

    def _read(self, X: ArrayLike, *, is_fit: bool) -> csr_array:
        """Return X as a sparse matrix, checked as scikit-learn does it."""
        options = {"accept_sparse": "csr", "dtype": np.float64}
        takes_others = self.source is not None and not is_fit and isinstance(X, pd.DataFrame)
        if takes_others:
            checked = check_array(X, **options)
        else:
            checked = validate_data(self, X, reset=is_fit, **options)
        check_non_negative(checked, f"{type(self).__name__}")
        return csr_array(checked)

    def _names(self, X: ArrayLike, width: int) -> list[str]:
        """Return the names of the columns of X."""
        if isinstance(X, pd.DataFrame):
            return [str(name) for name in X.columns]
        if self.columns is not None:
            if len(self.columns) != width:
                actual = f"{len(self.columns)} names for {width} columns of X"
                raise problem("columns", actual, "a name for each", "give those of this table")
            return [str(name) for name in self.columns]
        if self.source is None:
            return [f"x{column}" for column in range(width)]
        hint = "give a data frame with names, or SampleFeatures(columns=[...])"
        expected = "columns that are named by sequences or IDs"
        raise problem("X", f"{width} columns without names", expected, hint)

    def _branches(self, names: list[str]) -> tuple[KnownTips, dict[int, str], csr_array]:
        """Return the whole tree, the names of its tips by node, and the nodes above each column."""
        tip_names: dict[int, str] = {}
        if self.source is None:
            tips = _star(len(names))
            row_F = np.arange(len(names))
            tip_names = dict(enumerate(names, start=1))
        elif _is_reference(self.source):
            texts = self._texts(names)
            tips, row_Q = _place(str(self.source), tuple(texts.items()))
            # Several columns may have one name.
            row_of_text = dict(zip(texts, row_Q.tolist(), strict=True))
            row_F = np.array([row_of_text[name] for name in names], np.int64)
        else:
            path = expand_home(self.source)
            known, tips = _read_tree(path, path.stat().st_mtime_ns if path.exists() else 0)
            row_of = {name: row for row, name in enumerate(known)}
            missing = [name for name in names if name not in row_of]
            if missing:
                actual = f"a tree without {count_names('column', missing)} of {len(names)}"
                hint = "give the tree of this table, or leave these columns out"
                raise problem(path, actual, "every column of X at a tip", hint)
            row_F = np.array([row_of[name] for name in names], np.int64)
            tip_names = dict(zip(tips.tip_U.tolist(), known, strict=True))
        near = np.flatnonzero(row_F >= 0)
        above = tips.branch_matrix(row_F[near]).tocoo()
        # The root, which has no branch, lies above all that is placed, too.
        rows = np.concatenate([near[above.row], near])
        nodes = np.concatenate([above.col, np.full(len(near), ROOT)])
        shape = (len(names), len(tips.parent_B))
        return tips, tip_names, csr_array((np.ones(len(rows)), (rows, nodes)), shape)

    def _with_siblings(
        self, found_NB: csr_array, candidates: NDArray[np.int64], prevalence: NDArray[np.floating]
    ) -> tuple[NDArray[np.int64], NDArray[np.floating]]:
        """Return the branches with siblings that have reads, and how many samples have the fewer.

        Of two siblings the first is returned. `found_NB` has the columns that are found below.
        """
        parent = self._tips.parent_B[candidates]
        by_branch_NB = found_NB.tocsc()
        siblings_NC = by_branch_NB[:, parent] - by_branch_NB[:, candidates]
        with_siblings = np.asarray((siblings_NC > 0).mean(axis=0)).ravel()
        _, first, inverse, number = np.unique(
            parent, return_index=True, return_inverse=True, return_counts=True
        )
        is_first = np.arange(len(parent)) == first[inverse]
        chosen = (number[inverse] > 2) | (is_first & (number[inverse] == 2))
        if not chosen.any():
            actual = f"{found_NB.shape[0]} sample(s), 1 feature(s) that is placed, or clades alone"
            raise problem("X", actual, "clades with siblings for kind='ratios'", "use 'clades'")
        return candidates[chosen], np.minimum(prevalence, with_siblings)[chosen]

    def _texts(self, names: list[str]) -> dict[str, str]:
        """Return the sequence of every column."""
        return table_sequences(_table(csr_array((0, len(names))), names), _PLACE, self.sequences)

    def _embed(self, values_NF: csr_array, names: list[str]) -> NDArray[np.floating]:
        # The imports stand here because trees need no PyTorch.
        import torch

        from aam.inference.tables import like_training

        table = _table(values_NF, names)
        empty = np.flatnonzero(table.reads == 0)
        if len(empty):
            actual = f"{count_names('row', empty.tolist())} without reads"
            raise problem("X", actual, "reads in every sample", "leave these samples out")
        counts = like_training(table, self._encoder.facts, "X")
        threads = torch.get_num_threads()
        _, sample_ND = self._encoder.embed_table(counts, self._texts(names), None, threads)
        return sample_ND.numpy()


def clades_of(adata: Any) -> NDArray[np.floating]:
    """Return the clades of the tree v4 of samples: `aam_clades` of `biotapy.ml.embed`.

    Parameters
    ----------
    adata
        Reads of V4; `var["sequence"]`, or else `var_names`, has the sequences.

    Returns
    -------
    numpy.ndarray
        `SampleFeatures("v4")` of this table, whose columns are those of its own samples.
    """
    return np.asarray(SampleFeatures("v4", columns=_sequences_of(adata)).fit_transform(adata.X))


def encoder_of(adata: Any) -> NDArray[np.floating]:
    """Return the embeddings of samples: `aam_encoder` of `biotapy.ml.embed`.

    Parameters
    ----------
    adata
        Reads; `var["sequence"]`, or else `var_names`, has the sequences, and `uns["aam_encoder"]`
        the folder of a pretrained encoder.

    Raises
    ------
    InputError
        No folder is named.
    """
    if ENCODER not in adata.uns:
        hint = f"adata.uns[{ENCODER!r}] = 'results/<dataset>/pretrain/<model>/model'"
        raise problem("adata.uns", f"no {ENCODER!r}", "the folder of a pretrained encoder", hint)
    features = SampleFeatures(
        str(adata.uns[ENCODER]), kind="embedding", columns=_sequences_of(adata)
    )
    return np.asarray(features.fit_transform(adata.X))


def _sequences_of(adata: Any) -> list[str]:
    texts = adata.var[SEQUENCE] if SEQUENCE in adata.var else adata.var_names
    return [str(text) for text in texts]


def _table(values_NF: csr_array, names: list[str]) -> FeatureTable:
    """Return a table whose samples are numbered, of reads where all numbers are whole."""
    is_counted = bool((values_NF.data == np.round(values_NF.data)).all())
    counts = csr_array(values_NF.astype(np.int64 if is_counted else np.float64))
    counts.eliminate_zeros()
    counts.sort_indices()
    samples = [str(row) for row in range(values_NF.shape[0])]
    return FeatureTable(samples, names, counts, TableFacts(is_counted=is_counted))


def _is_reference(source: str | Path | None) -> bool:
    return str(source) in REFERENCES or str(source) in gene_references()


def _load_encoder(folder: str | Path) -> "PretrainedEncoder":
    # The import stands here because trees need no PyTorch.
    from aam.inference.pretrained import PretrainedEncoder

    return PretrainedEncoder.load(folder)


def _star(width: int) -> KnownTips:
    """Return a tree in which every column hangs at the root, by a branch of length 1."""
    return KnownTips(
        tip_U=np.arange(1, width + 1, dtype=np.int32),
        parent_B=np.array([-1] + [ROOT] * width, np.int32),
        length_B=np.array([0.0] + [1.0] * width, np.float32),
    )


# The folds of a cross-validation place the same sequences each time, and read the same tree.
@lru_cache(maxsize=4)
def _place(name: str, texts: tuple[tuple[str, str], ...]) -> tuple[KnownTips, NDArray[np.int64]]:
    """Return the tree of a reference, and the known sequence that each sequence lies below."""
    reference = ReferencePhylogeny.load(name)
    return reference.tips, reference.placement(dict(texts)).row_Q


@lru_cache(maxsize=4)
def _read_tree(path: Path, _changed: int) -> tuple[list[str], KnownTips]:
    """Return the tips of a file and its tree; `_changed` is when it was written."""
    return number_nodes(load_tree(path))
