"""A reference of whole genes: sequences, the tree that they are the tips of, and their lineages.

A folder holds it: `MANIFEST.json` and a file in the safetensors format, whose arrays
docs/reference/artifacts.md describes.

Shape suffixes: U known sequences, S bases, C bytes of four bases, L lineages.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from aam.config.references import GENES
from aam.data.importing.ids import describe_matches
from aam.data.importing.sequences import load_reference_sequences
from aam.data.importing.taxonomy import load_taxonomy
from aam.data.importing.tree import load_tree
from aam.reference_tree.nearest import BITS, UNKNOWN, encode, pack
from aam.reference_tree.search import Hits, SequenceSearch
from aam.reference_tree.tree import KnownTips, number_nodes
from aam.reference_tree.words import WordIndex
from aam.util.atomic import atomic_path_with_mode, read_json, remove, write_json
from aam.util.digests import MANIFEST, file_digest
from aam.util.errors import count_names, first_names, problem

logger = logging.getLogger(__name__)
VERSION = 1
"""Of the file's arrays and of what is indexed."""
LEAST_SHARE = 0.5
"""Fraction of the sequences that the tree must have: fewer are a tree of other sequences."""
LONGEST_UNKNOWN = 10
"""Ambiguous letters in a row that equal any base; a longer row equals none."""
_LETTERS = np.frombuffer(b"ACGT", np.uint8)
_LETTERS_OF_BYTE = np.stack([_LETTERS[(np.arange(256) >> bits) & 3] for bits in BITS], axis=1)
"""The letters of four packed bases, [256, 4]."""
_AGAIN = "make it again: `aam reference get` or `aam reference build`"


@dataclass(frozen=True, eq=False)
class GeneReference:
    """Genes with their tree and lineages, read from a file part by part, as these are needed.

    Attributes
    ----------
    path
        The file.
    """

    path: Path

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open a reference.

        Parameters
        ----------
        folder
            Folder that `build_reference` wrote.

        Raises
        ------
        InputError
            There is no such reference, it is damaged, or of another version.
        """
        reference = cls(folder / GENES)
        version = reference.manifest.get("version")
        if version != VERSION:
            actual = f"a reference of version {version}"
            raise problem(folder, actual, f"version {VERSION}", _AGAIN)
        # The header alone is read, which tells a damaged file.
        reference._array("offset")
        return reference

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """What the reference was made of."""
        return read_json(self.path.parent / MANIFEST)

    @cached_property
    def names(self) -> list[str]:
        """IDs of the U sequences, in the order of the tree."""
        return self._lines("names")

    @cached_property
    def lineages(self) -> list[str]:
        """Lineage of each of the U sequences; empty where it has none."""
        texts = self._lines("lineages")
        return [texts[number] for number in self._array("lineage").tolist()]

    @cached_property
    def tips(self) -> KnownTips:
        """Branches of the tree, and the node of each sequence."""
        return KnownTips(
            tip_U=self._array("tip"),
            parent_B=self._array("parent"),
            length_B=self._array("branch_length"),
        )

    @cached_property
    def search(self) -> SequenceSearch:
        """What finds the sequences that lie near others."""
        offset_U = self._array("offset")
        letters_S = _LETTERS_OF_BYTE[self._array("bases")].reshape(-1)[: offset_U[-1]]
        begin_R, length_R = self._array("unknown")
        for begin, length in zip(begin_R.tolist(), length_R.tolist(), strict=True):
            letter = b"N" if length <= LONGEST_UNKNOWN else b"-"
            letters_S[begin : begin + length] = letter[0]
        index = WordIndex(
            begin_W=self._array("word_begin"),
            sequence_P=self._array("word_sequence"),
            known=len(offset_U) - 1,
        )
        return SequenceSearch(letters_S.tobytes(), offset_U, index)

    def _lines(self, name: str) -> list[str]:
        return self._array(name).tobytes().decode("utf-8").split("\n")

    def _array(self, name: str) -> NDArray[Any]:
        try:
            with safe_open(self.path, framework="numpy") as parts:
                return parts.get_tensor(name)
        except (OSError, SafetensorError) as error:
            raise problem(self.path, str(error), "a reference of whole genes", _AGAIN) from error


def nearest_sequences(
    reference: GeneReference,
    sequences: Sequence[str],
    threads: int = 1,
    is_left_out_U: NDArray[np.bool_] | None = None,
) -> Hits:
    """Return the sequences of a reference that lie near others.

    Parameters
    ----------
    reference
        The reference.
    sequences
        Nucleotides of any region, strand and length; T or U, upper or lower case.
    threads
        Processes that work.
    is_left_out_U
        Sequences of the reference that are passed over.

    Returns
    -------
    Hits
        In the order of `sequences`; see `aam.reference_tree.search`.
    """
    return reference.search.nearest(sequences, threads, is_left_out_U)


def build_reference(
    folder: Path,
    *,
    sequences: Path,
    tree: Path,
    taxonomy: Path | None = None,
    source: str = "",
    licence: str = "",
) -> dict[str, Any]:
    """Make a reference of the user's files.

    Parameters
    ----------
    folder
        Folder to write; what is there is replaced.
    sequences
        FASTA or .qza, aligned or not, DNA or RNA.
    tree
        Rooted tree of these: Newick or .qza.
    taxonomy
        Their lineages: text or .qza; None: the sequences have no names.
    source, licence
        Where the files come from, and under which licence, for the manifest.

    Returns
    -------
    dict
        The manifest.

    Raises
    ------
    InputError
        A file cannot be read, or the tree is one of other sequences.
    """
    text_of = load_reference_sequences(sequences)
    tip_names, tips = number_nodes(load_tree(tree, is_reference=True))
    is_known_U = np.array([name in text_of for name in tip_names], bool)
    _say_what_matches(sequences, [*text_of], tree, tip_names)
    names = [name for name, is_known in zip(tip_names, is_known_U, strict=True) if is_known]
    lineages = [""] * len(names)
    if taxonomy is not None:
        lineages = _lineages(taxonomy, names)
    lineage_texts, lineage_U = np.unique(lineages, return_inverse=True)
    joined = "".join(text_of[name] for name in names)
    bases_S = encode([joined], len(joined))[0]
    offset_U = np.concatenate([[0], np.cumsum([len(text_of[name]) for name in names])])
    index = WordIndex.build(bases_S, offset_U)
    arrays: Mapping[str, NDArray[Any]] = {
        "names": _bytes_of(names),
        "offset": offset_U.astype(np.int64),
        "bases": pack(bases_S[None])[0],
        "unknown": _runs(bases_S == UNKNOWN),
        "tip": tips.tip_U[is_known_U],
        "parent": tips.parent_B,
        "branch_length": tips.length_B,
        "lineages": _bytes_of(lineage_texts.tolist()),
        "lineage": lineage_U.astype(np.int32),
        "word_begin": index.begin_W,
        "word_sequence": index.sequence_P,
    }
    # A reference whose manifest is missing is incomplete and not found.
    remove(folder / MANIFEST)
    with atomic_path_with_mode(folder / GENES) as partial:
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, partial)
    manifest = {
        "version": VERSION,
        "source": source,
        "licence": licence,
        "sequences": len(names),
        "lineages": sum(map(bool, lineages)),
        "branches": len(tips.parent_B) - 1,
        "made_of": {
            path.name: file_digest(path) for path in (sequences, tree, taxonomy) if path is not None
        },
        "sha256": {GENES: file_digest(folder / GENES)},
    }
    write_json(folder / MANIFEST, manifest)
    return manifest


def _say_what_matches(
    sequences: Path, names: Sequence[str], tree: Path, tip_names: Sequence[str]
) -> None:
    """Check that a tree is one of some sequences, and warn of what is in one file alone.

    Raises
    ------
    InputError
        The tree lacks more than half of the sequences.
    """
    tips = set(tip_names)
    without_tip = [name for name in names if name not in tips]
    if len(without_tip) > LEAST_SHARE * len(names):
        raise problem(
            tree,
            f"a tree without {count_names('sequence', without_tip, limit=3)} of {len(names)} in "
            f"{sequences}; its tips are {first_names(tip_names, limit=3)}"
            f"{describe_matches(without_tip, tips)}",
            "a tree whose tips are the sequences",
            "give files that belong together",
        )
    if without_tip:
        logger.warning(
            "%s: %s of %d are no tips of %s, and left out",
            sequences,
            count_names("sequence", without_tip, limit=3),
            len(names),
            tree,
        )
    known = set(names)
    without_text = [name for name in tip_names if name not in known]
    if without_text:
        logger.warning(
            "%s: %s of %d have no sequence in %s: nothing will be placed next to them",
            tree,
            count_names("tip", without_text, limit=3),
            len(tip_names),
            sequences,
        )


def _lineages(taxonomy: Path, names: Sequence[str]) -> list[str]:
    """Return the lineage of each sequence, empty where a taxonomy has none.

    Raises
    ------
    InputError
        The file is no taxonomy, or has none of the sequences.
    """
    lineage_of = load_taxonomy(taxonomy)
    missing = [name for name in names if name not in lineage_of]
    if len(missing) == len(names):
        raise problem(
            taxonomy,
            f"none of the sequences; its IDs are {first_names(lineage_of, limit=3)}"
            f"{describe_matches(missing, lineage_of)}",
            "lineages by the IDs of the sequences",
            "give files that belong together",
        )
    if missing:
        logger.warning("%s: no lineage for %s", taxonomy, count_names("sequence", missing, limit=3))
    return [lineage_of.get(name, "") for name in names]


def _bytes_of(lines: Sequence[str]) -> NDArray[np.uint8]:
    return np.frombuffer("\n".join(lines).encode("utf-8"), np.uint8)


def _runs(is_unknown_S: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return begins and lengths of the runs of unknown bases, [2, R]."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], is_unknown_S, [False]])))
    return np.stack([edges[::2], edges[1::2] - edges[::2]]).astype(np.int64)
