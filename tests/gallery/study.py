"""A small healthy study as text files, which each case of the gallery spoils in one way."""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

BASES = "ACGT"
V4_START = "TACGGAGGGTGCAAGCGTTATCCGGATTCACTGGGTTTAAAGGGTGCGTAGGTGGC"
"""How reads of 16S begin behind the primer 515F."""
COMPLEMENT = str.maketrans("ACGT", "TGCA")
SAMPLES = 40
FEATURES = 30


@dataclass
class Study:
    """What the files of a study hold; `write` writes them, and a case changes it before."""

    samples: list[str]
    features: list[str]
    sequences: list[str]
    """Of the features, in their order."""
    counts: list[list[int]]
    """A row per feature, a number per sample."""
    columns: dict[str, list[str]]
    """Cells of the metadata by column, in the order of `rows`."""
    rows: list[str] = field(default_factory=list)
    """Sample IDs of the metadata."""
    files: dict[str, str] = field(default_factory=dict)
    """Names of the files by what they are to `aam init`: what is not here is not given."""

    def __post_init__(self) -> None:
        self.rows = self.rows or list(self.samples)
        names = {"table": "table.tsv", "metadata": "metadata.tsv"}
        names |= {"sequences": "sequences.fasta", "tree": "tree.nwk"}
        self.files = self.files or names

    @property
    def reads(self) -> int:
        """Reads in the table."""
        return sum(map(sum, self.counts))

    @property
    def size(self) -> str:
        """What `aam check` says of this table where it read all of it right."""
        return (
            rf"{len(self.samples)} samples, {len(self.features)} ASVs, "
            rf"{self.reads:,}(\.0)? reads"
        )

    def table(self, *, first: str = "#OTU ID", separator: str = "\t") -> str:
        """Return the table as text, with features in rows."""
        lines = [[first, *self.samples]]
        lines += [
            [name, *map(str, row)] for name, row in zip(self.features, self.counts, strict=True)
        ]
        return joined(lines, separator)

    def transposed(self, *, first: str = "", separator: str = "\t") -> str:
        """Return the table as text, with samples in rows."""
        columns = zip(*self.counts, strict=True)
        lines = [[first, *self.features]]
        lines += [[name, *map(str, row)] for name, row in zip(self.samples, columns, strict=True)]
        return joined(lines, separator)

    def metadata(self, *, first: str = "sample-id", separator: str = "\t") -> str:
        """Return the metadata as text."""
        lines = [[first, *self.columns]]
        lines += [
            [name, *cells] for name, *cells in zip(self.rows, *self.columns.values(), strict=True)
        ]
        return joined(lines, separator)

    def fasta(self, header: Callable[[str], str] = str) -> str:
        """Return the sequences as FASTA, with `header` of each ID behind the sign."""
        pairs = zip(self.features, self.sequences, strict=True)
        return "".join(f">{header(name)}\n{sequence}\n" for name, sequence in pairs)

    def newick(self) -> str:
        """Return a rooted tree of the features with a length on every branch."""
        draws = random.Random(5)
        nodes = list(self.features)
        while len(nodes) > 2:
            left, right = nodes.pop(0), nodes.pop(0)
            lengths = [draws.uniform(0.02, 0.1) for _ in range(2)]
            nodes.append(f"({left}:{lengths[0]:.4f},{right}:{lengths[1]:.4f})")
        return f"({nodes[0]}:0.05,{nodes[1]}:0.05);\n"

    def taxonomy(self) -> str:
        """Return a taxonomy of the features."""
        taxa = [f"d__Bacteria; p__Phylum{i % 4}; g__Genus{i}" for i in range(len(self.features))]
        lines = [["Feature ID", "Taxon"]]
        lines += [list(pair) for pair in zip(self.features, taxa, strict=True)]
        return joined(lines)

    def write(self, folder: Path) -> None:
        """Write the files that no case has written yet."""
        texts = {
            "table.tsv": self.table,
            "metadata.tsv": self.metadata,
            "sequences.fasta": self.fasta,
            "tree.nwk": self.newick,
            "taxonomy.tsv": self.taxonomy,
        }
        for name in self.files.values():
            if name in texts and not (folder / name).exists():
                (folder / name).write_text(texts[name](), encoding="utf-8")

    def rename_samples(self, names: Sequence[str]) -> None:
        """Give the samples other IDs, in the table and in the metadata."""
        self.samples = list(names)
        self.rows = list(names)

    def drop_samples(self, dropped: Iterable[int]) -> None:
        """Leave out samples, by their positions, in the table and in the metadata."""
        kept = [i for i in range(len(self.samples)) if i not in set(dropped)]
        self.samples = [self.samples[i] for i in kept]
        self.rows = [self.rows[i] for i in kept]
        self.counts = [[row[i] for i in kept] for row in self.counts]
        self.columns = {name: [cells[i] for i in kept] for name, cells in self.columns.items()}

    def recode(self, column: str, words: dict[str, str]) -> None:
        """Write other words for the values of a column."""
        self.columns[column] = [words[cell] for cell in self.columns[column]]


def healthy(samples: int = SAMPLES, seed: int = 1) -> Study:
    """Return a study whose reads predict a class and a number, without anything odd."""
    draws = random.Random(seed)
    sequences = random.Random(2)
    ages = [20 + 40 * i // samples for i in range(samples)]
    draws.shuffle(ages)
    groups = ["case" if i % 2 else "control" for i in range(samples)]
    counts = []
    for feature in range(FEATURES - 1):
        row = []
        for group, age in zip(groups, ages, strict=True):
            count = draws.randint(10, 40)
            if feature < 4:
                count += 90 * (group == "case")
            elif feature < 8:
                count += 4 * age
            elif feature < 12:
                count += 4 * (80 - age)
            row.append(count)
        counts.append(row)
    # The last one fills up: no sample has fewer reads than the depth that `init` proposes.
    totals = [sum(column) for column in zip(*counts, strict=True)]
    goal = 2600
    assert max(totals) < goal
    counts.append([goal - total + draws.randint(0, 70) for total in totals])
    return Study(
        samples=[f"S{i + 1:02d}" for i in range(samples)],
        features=[f"ASV{i + 1}" for i in range(FEATURES)],
        sequences=[
            V4_START + "".join(sequences.choices(BASES, k=sequences.randint(40, 64)))
            for _ in range(FEATURES)
        ],
        counts=counts,
        columns={"group": groups, "age": list(map(str, ages))},
    )


def joined(lines: Iterable[Sequence[str]], separator: str = "\t") -> str:
    """Return lines of cells as text."""
    return "".join(separator.join(cells) + "\n" for cells in lines)


def quoted(lines: str, separator: str = "\t") -> str:
    """Return a table as R's `write.table` writes it: quotes, and no name above the row names."""
    header, *rows = [line.split(separator) for line in lines.splitlines()]
    cells = [[f'"{name}"' for name in header[1:]]]
    cells += [
        [cell if _is_number(cell) and i else f'"{cell}"' for i, cell in enumerate(row)]
        for row in rows
    ]
    return joined(cells, separator)


def reverse_complement(sequence: str) -> str:
    """Return the other strand."""
    return sequence.translate(COMPLEMENT)[::-1]


def _is_number(cell: str) -> bool:
    return cell.replace(".", "", 1).isdigit()
