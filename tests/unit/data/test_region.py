"""Which gene and region sequences are of, on genes that are cut at primers as amplicons are."""

import random

import numpy as np
import pytest
from cut_genes import ARCHAEON, FUNGI, GENES, OF_16S, PRIMERS, amplicon, amplicons, site

from aam.data.importing.region import ReadRegion, recognize_region
from aam.data.importing.ribosomal_genes import (
    E_COLI,
    FORWARD,
    REVERSE,
    VARIABLE_REGIONS,
    YEAST,
    Primer,
)
from aam.reference_tree.nearest import reverse_complement


def recognize(sequences: list[str], reads: list[int] | None = None) -> ReadRegion:
    return recognize_region(sequences, np.array(reads or [10] * len(sequences)))


@pytest.mark.parametrize("primer", [*FORWARD, *REVERSE], ids=lambda primer: primer.name)
def test_primers_lie_where_they_are_said_to(primer: Primer):
    assert len(E_COLI) == 1542
    assert site(primer.name, E_COLI) == (primer.begin - 1, primer.end)


@pytest.mark.parametrize(
    ("forward", "reverse", "regions"),
    [
        ("27F", "338R", "V1-V2"),
        ("27F", "534R", "V1-V3"),
        ("341F", "534R", "V3"),
        ("341F", "805R", "V3-V4"),
        ("515F", "806R", "V4"),
        ("515F", "926R", "V4-V5"),
        ("799F", "1193R", "V5-V7"),
        ("926F", "1392R", "V6-V8"),
        ("27F", "1392R", "V1-V8"),
    ],
)
@pytest.mark.parametrize("change", ["none", "reversed", "RNA", "lower case", "unknown bases"])
def test_the_region_between_two_primers_is_named(forward, reverse, regions, change):
    sequences = amplicons(forward, reverse)
    if change == "reversed":
        sequences = [reverse_complement(text) for text in sequences]
    elif change == "RNA":
        sequences = [text.replace("T", "U") for text in sequences]
    elif change == "lower case":
        sequences = [text.lower() for text in sequences]
    elif change == "unknown bases":
        sequences = [f"{text[:40]}NNNR{text[44:]}" for text in sequences]
    found = recognize(sequences)
    assert found.gene == "16S"
    (part,) = found.parts
    assert part.regions == regions
    assert part.primers == (forward, reverse)
    assert abs(part.begin - PRIMERS[forward].end - 1) <= 1
    assert abs(part.end - PRIMERS[reverse].begin + 1) <= 1
    assert found.reverse == pytest.approx(float(change == "reversed"))
    assert len([*found.oddities()]) == (change == "reversed")
    assert found.is_v4 == (forward == "515F")


def test_archaea_are_16s_and_get_the_positions_of_e_coli():
    for forward, reverse in [("341F", "805R"), ("515F", "806R"), ("515F", "926R")]:
        found = recognize([amplicon(ARCHAEON, forward, reverse)])
        assert found.gene == "16S"
        assert found.parts[0].primers == (forward, reverse)
    whole = recognize([ARCHAEON])
    assert whole.parts[0].regions == "V1-V9"


@pytest.mark.parametrize("length", [60, 90, 150])
def test_reads_that_were_cut_are_recognized(length):
    found = recognize([text[:length] for text in amplicons("515F", "926R")])
    assert found.gene == "16S"
    assert found.parts[0].primers == ("515F", "")
    assert found.parts[0].begin == 534
    assert not [*found.oddities()]


def test_insertions_and_deletions_do_not_move_the_region():
    changed = [f"{text[:100]}ACG{text[100:200]}{text[205:]}" for text in amplicons("341F", "805R")]
    assert recognize(changed).parts[0].primers == ("341F", "805R")


def test_reads_of_both_strands_are_told_with_their_share():
    """dada2#167: half of the variants were reverse complements of the other half."""
    forward = amplicons("515F", "806R")
    found = recognize(forward + [reverse_complement(text) for text in forward], [3] * 4 + [1] * 4)
    assert found.reverse == pytest.approx(0.25)
    assert found.parts[0].primers == ("515F", "806R")
    (said,) = found.oddities()
    assert said.startswith("25% of the reads are reverse complements")


def test_primers_that_were_left_on_are_told_by_name():
    """dada2#115: 515F and 806R were left on, and four of five reads were called chimeras."""
    found = recognize(amplicons("515F", "806R", with_primers=True))
    (said,) = found.oddities()
    assert "GTGYCAGCMGCCGCGGTAA in 100%" in said
    assert found.is_v4
    both = recognize(amplicons("341F", "805R", with_primers=True))
    assert {*both.primers} == {"341F", "805R"}


@pytest.mark.parametrize("spacer", ["", "ACGTAC"])
def test_a_forward_primer_behind_a_spacer_is_told(spacer):
    reads = [spacer + text[:200] for text in amplicons("341F", "805R", with_primers=True)]
    assert {*recognize(reads).primers} == {"341F"}


def test_primers_inside_of_a_read_are_none_that_were_left_on():
    whole = recognize(amplicons("341F", "926R"))
    assert not whole.primers


def test_reads_of_reversed_v3_v4_are_told():
    """dada2#146: reads behind 806R alone; no taxonomy was found for them until they were turned."""
    behind_806r = [reverse_complement(text)[:180] for text in amplicons("341F", "806R")]
    found = recognize(behind_806r)
    assert found.reverse == 1
    assert found.parts[0].primers[1] == "806R"
    (said,) = found.oddities()
    assert "reverse complements" in said


def test_two_regions_in_a_table_are_told():
    found = recognize(amplicons("341F", "805R") + amplicons("515F", "806R"), [2] * 4 + [3] * 4)
    assert [part.regions for part in found.parts] == ["V4", "V3-V4"]
    assert [round(part.share, 1) for part in found.parts] == [0.6, 0.4]
    (said,) = found.oddities()
    assert "2 parts of 16S" in said
    rare = recognize(amplicons("341F", "805R") + amplicons("515F", "806R"), [99] * 4 + [1] * 4)
    assert len(rare.parts) == 1
    assert not [*rare.oddities()]


def test_what_a_few_random_reads_are_like_by_chance_is_not_told():
    """Of random sequences of 60 bases, one in fifty is aligned to some part of a gene."""
    rng = random.Random(0)
    found = recognize(["".join(rng.choices("ACGT", k=60)) for _ in range(300)])
    assert found.gene == "other"
    assert len(found.parts) > 1
    assert not [*found.oddities()]


def test_pairs_that_are_joined_by_unknown_bases_are_16s():
    """dada2 joins pairs that do not overlap by ten N (`justConcatenate`)."""
    pairs = [f"{text[:240]}{'N' * 10}{text[-200:]}" for text in amplicons("27F", "534R")]
    found = recognize(pairs)
    assert found.gene == "16S"
    assert found.parts[0].primers[0] == "27F"


def test_18s_and_its_are_told_apart_from_16s():
    parts_of_18s = [YEAST[600:900], GENES["Arabidopsis_thaliana"][600:900], YEAST[1640:1770]]
    assert recognize(parts_of_18s).gene == "18S"
    assert recognize([reverse_complement(text) for text in parts_of_18s]).gene == "18S"
    found = recognize(FUNGI)
    assert found.gene == "ITS"
    assert "ITS" in str(found)
    assert not found.parts


def test_a_part_of_another_gene_is_told_with_its_share():
    found = recognize([*amplicons("515F", "926R"), YEAST[620:1000]], [2] * 4 + [1])
    (said,) = found.oddities()
    assert said.startswith("11% of the reads are unlike 16S (11% 18S)")


@pytest.mark.parametrize("length", [60, 90, 150, 250, 450, 2500])
def test_random_sequences_are_of_no_gene(length):
    draws = random.Random(length)
    texts = ["".join(draws.choices("ACGT", k=length)) for _ in range(60)]
    found = recognize(texts)
    assert found.gene == "other"
    assert found.shares.get("16S", 0) + found.shares.get("18S", 0) <= 0.05
    assert not [*found.oddities()]


def test_what_has_too_few_bases_is_not_judged():
    for text in ("ACGT" * 10, "N" * 300, "RYKM" * 80):
        found = recognize([text])
        assert not found.shares
        assert str(len(text)) in str(found)


def test_what_lies_beyond_the_gene_does_no_harm():
    """Amplicons of 16S, ITS and 23S go on where the gene ends."""
    draws = random.Random(1)
    behind = "".join(draws.choices("ACGT", k=2800))
    found = recognize([gene[site("27F", gene)[1] :] + behind for gene in OF_16S])
    assert found.parts[0].primers[0] == "27F"
    assert found.parts[0].regions == "V1-V9"


def test_regions_are_named_where_a_third_of_them_was_read():
    first, last = VARIABLE_REGIONS["V4"]
    third = E_COLI[533 : first + (last - first) // 2]
    assert recognize([third]).parts[0].regions == "V4"
    assert recognize([E_COLI[683:818]]).parts[0].regions == ""
    assert "E. coli 684 to 818" in str(recognize([E_COLI[683:818]]))
