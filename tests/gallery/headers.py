"""Metadata headers as public studies have them: what is of whom, what is studied, what is neither.

Names of columns are those of the source; values are made up in its style.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

Cell = Callable[[int], str | None]
"""A cell by the number of its sample."""


def unit(number: int, name: str = "U") -> Cell:
    """Return cells that name one of so many units, in turns."""
    return lambda i: f"{name}{i % number}"


def inside(number: int, coarser: int, name: str = "H") -> Cell:
    """Return cells that name the coarser unit of `unit(number)`."""
    return lambda i: f"{name}{i % number % coarser}"


def one(value: str) -> Cell:
    return lambda i: value


def own(name: str) -> Cell:
    return lambda i: f"{name}{1000 + 7 * i}"


def any_of(*values: str | None) -> Cell:
    """Return cells that are drawn from values, whatever the unit of the sample."""
    return lambda i: random.Random(f"{values}{i}").choice(values)


def of_unit(number: int, *values: str) -> Cell:
    """Return cells that are the same in all samples of `unit(number)`."""
    return lambda i: random.Random(f"{values}{i % number}").choice(values)


@dataclass(frozen=True)
class Measured:
    """Cells with a number of their own."""

    low: float
    high: float
    decimals: int

    def __call__(self, i: int) -> str:
        number = random.Random(f"{self.low}{self.high}{i}").uniform(self.low, self.high)
        return f"{number:.{self.decimals}f}"


def numbers(low: float, high: float, decimals: int = 0) -> Cell:
    return Measured(low, high, decimals)


@dataclass(frozen=True)
class Header:
    """The columns of a study, and what has to be proposed for them."""

    name: str
    """What kind of study it is, and where its header is from."""
    samples: int
    columns: dict[str, Cell]
    groups: str | None
    """The column that keeps samples together."""
    first: Sequence[str]
    """Columns of which the first task may be."""
    tasks: Sequence[str] = ()
    """Further columns that are proposed."""
    never: Sequence[str] = ()
    """Columns that are no task."""
    repeated: Sequence[str] = ()
    """Columns of numbers that several samples share; those of `numbers` are of numbers, too."""

    @property
    def of_numbers(self) -> set[str]:
        """Columns that are predicted as numbers; all others as classes."""
        measured = (name for name, cell in self.columns.items() if isinstance(cell, Measured))
        return {*self.repeated, *measured}

    def metadata(self) -> pd.DataFrame:
        """Return the metadata, text by sample ID."""
        ids = [f"S.{i:04d}" for i in range(self.samples)]
        cells = {
            name: [cell(i) for i in range(self.samples)] for name, cell in self.columns.items()
        }
        return pd.DataFrame(cells, index=ids, dtype=object)


QIITA_PREPARATION: dict[str, Cell] = {
    "barcode": own("ACGT"),
    "center_name": one("UCSDMI"),
    "experiment_design_description": one("16S stool"),
    "extraction_robot": any_of("HOWE_KF1", "HOWE_KF2", "HOWE_KF3", "HOWE_KF4"),
    "extractionkit_lot": any_of("157022406", "157022405"),
    "instrument_model": one("Illumina MiSeq"),
    "mastermix_lot": any_of("14459", "1331807"),
    "plating": any_of("AS", "BZ", "LL"),
    "primer_plate": any_of("1", "2", "3", "4", "5", "6"),
    "processing_robot": any_of("ROBE", "RIKE"),
    "run_date": any_of("2/16/17", "3/2/17"),
    "run_prefix": any_of("Lane1", "Lane2"),
    "sample_plate": any_of("P1", "P2", "P3", "P4"),
    "tm1000_8_tool": any_of("108379Z", "208484Z"),
    "tm300_8_tool": any_of("208484Z", "311318B"),
    "water_lot": any_of("RNBD9959", "RNBF7110"),
    "well_description": own("Plate_A_"),
    "well_id": lambda i: f"{'ABCDEFGH'[i % 8]}{1 + i // 8 % 12}",
}
"""What Qiita has of the laboratory, of every study."""
QIITA_SAMPLE: dict[str, Cell] = {
    "anonymized_name": own("A"),
    "collection_timestamp": lambda i: f"2016-{1 + i % 12:02d}-03",
    "dna_extracted": one("True"),
    "elevation": numbers(0, 300),
    "empo_3": one("Animal distal gut"),
    "geo_loc_name": any_of("USA:CA", "USA:CO"),
    "latitude": numbers(30, 40, 2),
    "longitude": numbers(-120, -100, 2),
    "physical_specimen_location": one("UCSD"),
    "qiita_study_id": one("10317"),
    "scientific_name": one("human gut metagenome"),
    "taxon_id": one("408170"),
    "title": one("A study of guts"),
}
"""What Qiita asks of every sample."""
SRA: dict[str, Cell] = {
    "Run": own("SRR"),
    "Assay Type": one("AMPLICON"),
    "AvgSpotLen": any_of("502", "500", "498", "490", "501", "499"),
    "Bases": numbers(1e6, 9e7),
    "BioProject": one("PRJNA1"),
    "BioSample": own("SAMN"),
    "Bytes": numbers(1e6, 9e7),
    "Center Name": one("UNIVERSITY"),
    "Consent": one("public"),
    "DATASTORE filetype": any_of("fastq,sra", "sra"),
    "Experiment": own("SRX"),
    "Instrument": any_of("Illumina MiSeq", "NextSeq"),
    "Library Name": own("L"),
    "MBases_l": numbers(1, 90),
    "MBytes_l": numbers(1, 60),
    "Organism": one("gut metagenome"),
    "ReleaseDate": any_of("2019-01-01", "2019-02-03"),
    "Sample Name": own("N"),
}
"""Columns of NCBI's Run Selector."""
LABORATORY = (
    "well_id extraction_robot processing_robot tm1000_8_tool tm300_8_tool primer_plate plating "
    "mastermix_lot water_lot extractionkit_lot run_prefix sample_plate run_date elevation latitude "
    "longitude geo_loc_name"
).split()[:-1]
ARCHIVE = ("Bases", "Bytes", "MBases_l", "MBytes_l", "AvgSpotLen", "Instrument", "ReleaseDate")

HEADERS = [
    Header(
        "Qiita, people by well: sex of 20 people in 822 samples (issue 56)",
        822,
        {
            **QIITA_SAMPLE,
            **QIITA_PREPARATION,
            "host_subject_id": unit(20, "M"),
            "sex": of_unit(20, "male", "female"),
            "host_age": of_unit(20, *map(str, range(20, 70))),
        },
        groups="host_subject_id",
        repeated=["host_age"],
        first=["host_age", "sex"],
        never=LABORATORY,
    ),
    Header(
        "the same in capitals, as older exports have it",
        300,
        {
            **{name.upper(): cell for name, cell in {**QIITA_SAMPLE, **QIITA_PREPARATION}.items()},
            "HOST_SUBJECT_ID": unit(30, "M"),
            "DISEASE_STATE": of_unit(30, "HC", "CD", "UC"),
            "BODY_SITE": any_of("UBERON:feces", "UBERON:colon"),
        },
        groups="HOST_SUBJECT_ID",
        first=["DISEASE_STATE"],
        tasks=["BODY_SITE"],
        never=[name.upper() for name in LABORATORY],
    ),
    Header(
        "SRA run table whose column Subject is the diagnosis (issue 56)",
        110,
        {
            **SRA,
            "Subject": any_of("Patient", "Control"),
            "Age": numbers(20, 80),
            "Sex": any_of("male", "female"),
        },
        groups=None,
        first=["Subject", "Age"],
        tasks=["Subject", "Age", "Sex"],
        never=ARCHIVE,
    ),
    Header(
        "SRA run table of patients with several samples",
        120,
        {**SRA, "host_subject_id": unit(40), "host_disease": of_unit(40, "IBS", "healthy")},
        groups="host_subject_id",
        first=["host_disease"],
        never=ARCHIVE,
    ),
    Header(
        "QIIME 2, moving pictures",
        34,
        {
            "barcode-sequence": own("ACG"),
            "body-site": any_of("gut", "tongue", "left palm", "right palm"),
            "year": any_of("2008", "2009"),
            "month": any_of("1", "2", "3", "10"),
            "day": any_of("14", "17", "20", "28"),
            "subject": unit(2, "subject-"),
            "reported-antibiotic-usage": any_of("Yes", "No"),
            "days-since-experiment-start": any_of("0", "84", "112", "140", "168"),
        },
        groups="subject",
        first=["body-site"],
        never=["year", "month", "day", "barcode-sequence"],
    ),
    Header(
        "QIIME 2, Parkinson's mice: cages hold mice of one donor",
        48,
        {
            "barcode": own("ACG"),
            "mouse_id": lambda i: str(435 + i % 24),
            "genotype": any_of("wild type", "susceptible"),
            "cage_id": lambda i: f"C{31 + i % 24 % 12}",
            "donor": lambda i: f"hc_{1 + i % 24 % 2}",
            "sex": any_of("male", "female"),
            "donor_status": any_of("Healthy", "PD"),
            "days_post_transplant": any_of("7", "14", "21", "49"),
        },
        groups="cage_id",
        first=["donor_status"],
        tasks=["genotype"],
        never=["mouse_id", "cage_id", "barcode"],
    ),
    Header(
        "QIIME 2, soils of the Atacama",
        75,
        {
            "barcode-sequence": own("ACG"),
            "elevation": numbers(800, 4000),
            "extract-concen": numbers(0, 30, 2),
            "amplicon-concen": numbers(0, 30, 2),
            "extract-group-no": any_of("A", "B", "C", "D"),
            "transect-name": any_of("Baquedano", "Yungay"),
            "site-name": unit(24, "BAQ"),
            "depth": any_of("1", "2", "3"),
            "ph": numbers(6, 9, 2),
            "toc": numbers(10, 800, 1),
            "average-soil-relative-humidity": numbers(10, 100, 2),
            "vegetation": any_of("yes", "no"),
        },
        groups="site-name",
        first=["average-soil-relative-humidity"],
        tasks=["ph", "depth", "vegetation"],
        never=["barcode-sequence", "extract-group-no", "elevation"],
    ),
    Header(
        "QIIME 2, transplants in autism",
        200,
        {
            "subject-id": unit(38),
            "animations-subject": unit(38, "a"),
            "sample-type": any_of("stool", "swab"),
            "treatment-group": of_unit(38, "treatment", "control", "donor"),
            "week": any_of("0", "3", "10", "18"),
            "gsrs": numbers(1, 5, 2),
            "administration-route": of_unit(38, "oral", "rectal"),
        },
        groups="subject-id",
        first=["sample-type"],
        tasks=["treatment-group", "gsrs"],
        never=["animations-subject"],
    ),
    Header(
        "infants of ECAM",
        300,
        {
            "day_of_life": numbers(1, 800),
            "delivery": of_unit(42, "Vaginal", "Cesarean"),
            "diet": of_unit(42, "bd", "fd"),
            "host_subject_id": lambda i: f"{i % 42}.0",
            "mom_child": any_of("C", "M"),
            "month": any_of("1.0", "2.0", "3.0", "7.0"),
            "qiita_empo_2": one("Animal"),
            "sex": of_unit(42, "Female", "Male"),
            "studyid": lambda i: f"{i % 42}.0",
        },
        groups="host_subject_id",
        first=["delivery", "diet"],
        tasks=["day_of_life", "sex"],
        never=["month", "studyid"],
    ),
    Header(
        "DIABIMMUNE, its three cohorts",
        240,
        {
            "SampleID": own("3000"),
            "subjectID": lambda i: f"E{i % 60:06d}",
            "collection_month": numbers(1, 36),
            "country": of_unit(60, "FIN", "EST", "RUS"),
            "gender": of_unit(60, "Male", "Female"),
            "delivery": of_unit(60, "vaginal", "cesarean"),
            "seroconverted": of_unit(60, "TRUE", "FALSE"),
            "gid_16s": own("G"),
        },
        groups="subjectID",
        first=["delivery"],
        tasks=["collection_month", "country", "seroconverted"],
        never=["SampleID", "gid_16s"],
    ),
    Header(
        "HMP2, inflammatory bowels",
        178,
        {
            "External ID": own("CSM"),
            "Participant ID": unit(80, "C30"),
            "site_sub_coll": own("C3001C"),
            "data_type": one("biopsy_16S"),
            "week_num": any_of("0", "4", "8", "12"),
            "diagnosis": of_unit(80, "CD", "UC", "nonIBD"),
            "biopsy_location": any_of("Rectum", "Ileum", "Cecum"),
            "site_name": of_unit(80, "MGH", "Cedars-Sinai", "Cincinnati"),
            "reads_filtered": numbers(1000, 90000),
            "Age at diagnosis": of_unit(80, *map(str, range(6, 60))),
        },
        groups="Participant ID",
        repeated=["Age at diagnosis"],
        first=["diagnosis", "Age at diagnosis"],
        tasks=["biopsy_location"],
        never=["External ID", "reads_filtered"],
    ),
    Header(
        "curatedMetagenomicData, families",
        200,
        {
            "study_name": one("A_2015"),
            "subject_id": unit(100, "sub_"),
            "body_site": one("stool"),
            "antibiotics_current_use": of_unit(100, "no", "yes"),
            "study_condition": of_unit(100, "control", "IGT", "T2D"),
            "disease": of_unit(100, "healthy", "IGT", "T2D"),
            "age_category": of_unit(100, "adult", "senior"),
            "age": of_unit(100, *map(str, range(20, 80))),
            "gender": of_unit(100, "female", "male"),
            "country": one("CHN"),
            "DNA_extraction_kit": any_of("Qiagen", "MoBio"),
            "PMID": one("23023125"),
            "number_reads": numbers(1e7, 9e7),
            "number_bases": numbers(1e9, 9e9),
            "minimum_read_length": any_of("30", "35"),
            "NCBI_accession": own("SRR"),
            "family": inside(100, 25, "fam"),
            "BMI": numbers(17, 40, 1),
        },
        groups="family",
        repeated=["age"],
        first=["study_condition", "disease"],
        tasks=["age", "BMI"],
        never=["number_reads", "number_bases", "minimum_read_length", "DNA_extraction_kit"],
    ),
    Header(
        "phyloseq, GlobalPatterns",
        26,
        {
            "X.SampleID": own("CL"),
            "Primer": own("ILBC_"),
            "Final_Barcode": own("AACGCA"),
            "Barcode_truncated_plus_T": own("TGCGTT"),
            "SampleType": any_of("Soil", "Feces", "Skin"),
            "Description": own("a place, "),
        },
        groups=None,
        first=["SampleType"],
        never=["Primer", "Final_Barcode", "Description"],
    ),
    Header(
        "phyloseq, enterotypes of families",
        280,
        {
            "Enterotype": any_of("1", "2", "3", None),
            "Sample_ID": own("AM.AD."),
            "SeqTech": any_of("Sanger", "Illumina", "Pyro454"),
            "SampleID": own("AM."),
            "Project": any_of("gill06", "turnbaugh09"),
            "Nationality": any_of("american", "french"),
            "Gender": any_of("F", "M"),
            "Age": numbers(2, 80),
            "ClinicalStatus": any_of("healthy", "obese", "CD"),
        },
        groups=None,
        first=["ClinicalStatus"],
        tasks=["Age", "Enterotype"],
        never=["SeqTech", "Project"],
    ),
    Header(
        "phyloseq, warmed soil: plots are no plots of land but treatments' repeats",
        56,
        {
            "Treatment": any_of("WC", "WU", "UC", "UU"),
            "warmed": any_of("yes", "no"),
            "clipped": any_of("yes", "no"),
            "Sample": own("CC"),
        },
        groups=None,
        first=["Treatment"],
        tasks=["warmed", "clipped"],
    ),
    Header(
        "R package microbiome, swapped diets",
        222,
        {
            "subject": unit(38, "byn"),
            "sex": of_unit(38, "male", "female"),
            "nationality": of_unit(38, "AAM", "AFR"),
            "group": any_of("DI", "ED", "HE"),
            "sample": own("Sample-"),
            "timepoint": any_of("1", "2", "3", "4", "5", "6"),
            "timepoint.within.group": any_of("1", "2"),
            "bmi_group": of_unit(38, "lean", "obese", "overweight"),
        },
        groups="subject",
        first=["group", "bmi_group"],
        tasks=["nationality", "sex"],
        never=["sample"],
    ),
    Header(
        "R package microbiome, an atlas of 1006 adults",
        1006,
        {
            "age": numbers(18, 77),
            "gender": any_of("male", "female"),
            "nationality": any_of("US", "Scandinavia"),
            "DNA_extraction_method": any_of("r", "p", "o"),
            "project": any_of(*map(str, range(1, 40))),
            "diversity": numbers(4, 6, 2),
            "bmi_group": any_of("lean", "obese"),
            "subject": own(""),
            "time": any_of("0", "1", "2"),
            "sample": own("Sample-"),
        },
        groups=None,
        first=["bmi_group"],
        tasks=["age"],
        never=["DNA_extraction_method", "project"],
    ),
    Header(
        "mothur's mice after weaning",
        19,
        {
            "group": own("F3D"),
            "dpw": numbers(0, 150),
            "time": any_of("Early", "Late"),
            "mouse": unit(4, "F"),
        },
        groups="mouse",
        first=["time"],
    ),
    Header(
        "corpses: hosts of facilities, days since death",
        300,
        {
            **QIITA_PREPARATION,
            "host_subject_id": unit(36, "UTK."),
            "facility": of_unit(36, "STAFS", "FIRS", "ARF"),
            "sample_site": any_of("soil associated", "skin hip", "skin face"),
            "add_0": numbers(0, 400, 1),
            "days_since_placement": any_of(*map(str, range(21))),
            "season": of_unit(36, "spring", "winter"),
        },
        groups="host_subject_id",
        repeated=["days_since_placement"],
        first=["sample_site", "season"],
        tasks=["add_0", "days_since_placement"],
        never=LABORATORY[:11],
    ),
    Header(
        "people in homes",
        500,
        {
            "sample_name": own("11724."),
            "participant": unit(120, "P"),
            "household_id": inside(120, 40),
            "cohabitation_years": numbers(0, 40),
            "disease_course": of_unit(120, "RRMS", "Control", "PPMS"),
            "recruitment_center": of_unit(120, "Boston", "New York"),
        },
        groups="household_id",
        first=["disease_course"],
        never=["participant", "recruitment_center", "sample_name"],
    ),
    Header(
        "mice in four cages, two of each arm: too few cages for folds",
        64,
        {
            "MouseID": unit(16, "m"),
            "Cage": inside(16, 4, "C"),
            "Treatment": lambda i: ("vehicle", "drug")[i % 16 % 2],
            "Day": any_of("0", "7", "14"),
        },
        groups="MouseID",
        first=["Treatment"],
        never=["Cage"],
    ),
    Header(
        "pigs in pens, with their dams",
        180,
        {
            "Pig": lambda i: str(i % 60),
            "Pen": inside(60, 12, "pen"),
            "Sow": inside(60, 10, "sow"),
            "Diet": of_unit(60, "A", "B", "C"),
            "Weaning_weight_kg": numbers(5, 12, 2),
        },
        groups="Pen",
        first=["Diet"],
        tasks=["Weaning_weight_kg"],
        never=["Pig"],
    ),
    Header(
        "bees of hives",
        90,
        {
            "BeeID": own("b"),
            "Hive": unit(15, "hive"),
            "Infection": any_of("infected", "naive"),
            "Gut.region": any_of("ileum", "rectum"),
        },
        groups="Hive",
        first=["Infection"],
        tasks=["Gut.region"],
    ),
    Header(
        "colorectal cancer as GGMP and mothur's tutorials have it",
        490,
        {
            "sample": own("2003650"),
            "fit_result": numbers(0, 2000),
            "Site": any_of("U Michigan", "Toronto", "Dana Farber", "MD Anderson"),
            "Dx_Bin": any_of("Adenoma", "Cancer", "High Risk Normal", "Normal"),
            "dx": any_of("adenoma", "cancer", "normal"),
            "Hx_Prev": any_of("0", "1"),
            "Age": numbers(30, 80),
            "Gender": any_of("m", "f"),
            "Smoke": any_of("0", "1"),
            "stage": any_of("0", "1", "2", "3"),
        },
        groups=None,
        first=["Dx_Bin", "dx", "stage"],
        tasks=["Age", "fit_result"],
    ),
    Header(
        "a pH of ten values (issue 56)",
        266,
        {
            "cube": unit(24, "cube"),
            "pH": any_of("4.5", "5", "5.5", "6", "6.5", "7", "7.5", "8", "8.5", "9"),
            "depth_cm": any_of("0", "5", "10", "15"),
        },
        groups="cube",
        repeated=["pH"],
        first=["pH", "depth_cm"],
    ),
    Header(
        "a run of the sequencer that is called SEQ (issue 56)",
        100,
        {
            "PID": unit(50, "p"),
            "SEQ": any_of("S1", "S2", "S3"),
            "Case": of_unit(50, "case", "control"),
        },
        groups="PID",
        first=["Case"],
        never=["SEQ"],
    ),
    Header(
        "two columns of ECAM that number the infants",
        300,
        {
            "day_of_life": numbers(0, 700),
            "delivery": of_unit(42, "Vaginal", "Cesarean"),
            "diet": of_unit(42, "bd", "fd"),
            "host_subject_id": unit(42, ""),
            "qiita_study_id": one("10249.0"),
            "sex": of_unit(42, "Female", "Male"),
            "studyid": unit(42, ""),
        },
        groups="host_subject_id",
        first=["delivery"],
        tasks=["day_of_life"],
        never=["studyid"],
    ),
    Header(
        "a clinic that calls the number of a patient the study ID",
        120,
        {
            "Study_ID": unit(30, "UC-"),
            "Sex": of_unit(30, "F", "M"),
            "Response": of_unit(30, "yes", "no"),
            "Week": any_of("0", "4", "12"),
        },
        groups="Study_ID",
        first=["Response"],
        never=["Study_ID"],
    ),
    Header(
        "a meta-analysis: studies with people of both sexes",
        240,
        {
            "study_id": unit(6, "PRJNA"),
            "disease": any_of("CRC", "healthy"),
            "gender": any_of("female", "male"),
        },
        groups=None,
        first=["disease"],
        never=["study_id"],
    ),
    Header(
        "oral samples of many studies",
        400,
        {
            "host_age": numbers(18, 85),
            "qiita_study_id": any_of("550", "10317", "1070"),
            "published_fold": any_of("0", "1", "2", "3", "4"),
        },
        groups=None,
        first=["host_age"],
        never=["qiita_study_id", "published_fold"],
    ),
    Header(
        "vaginal samples of pregnancies",
        400,
        {
            "Subject_ID": unit(40, "1"),
            "GA_weeks": numbers(5, 42, 1),
            "Preg_Outcome": of_unit(40, "Term", "Preterm"),
            "CST": any_of("I", "II", "III", "IV"),
            "Race": of_unit(40, "A", "B"),
        },
        groups="Subject_ID",
        first=["Preg_Outcome"],
        tasks=["GA_weeks", "CST"],
    ),
    Header(
        "twins and their mothers",
        150,
        {
            "Individual": unit(75, "TS"),
            "Family": inside(75, 25, "F"),
            "Zygosity": of_unit(75, "MZ", "DZ", "Mom"),
            "Obesity": of_unit(75, "Lean", "Obese"),
            "Ancestry": of_unit(75, "EA", "AA"),
        },
        groups="Family",
        first=["Obesity"],
    ),
    Header(
        "German names",
        80,
        {
            "Patienten_Nr": lambda i: str(i % 40),
            "Patient Nr.": lambda i: str(i % 40),
            "Diagnose": of_unit(40, "krank", "gesund"),
            "Alter": of_unit(40, *map(str, range(20, 80))),
        },
        groups="Patienten_Nr",
        repeated=["Alter"],
        first=["Diagnose", "Alter"],
        tasks=["Diagnose", "Alter"],
    ),
    Header(
        "a clinical trial of REDCap",
        120,
        {
            "record_id": unit(40, ""),
            "redcap_event_name": any_of("baseline_arm_1", "week_12_arm_1"),
            "arm": of_unit(40, "placebo", "probiotic"),
            "response": of_unit(40, "responder", "non-responder"),
            "calprotectin": numbers(10, 900, 1),
        },
        groups="record_id",
        first=["response"],
        tasks=["arm", "calprotectin"],
    ),
    Header(
        "immunotherapy, one sample of each patient",
        94,
        {
            "Patient_ID": own("P"),
            "ORR": any_of("R", "NR"),
            "PFS12": any_of("yes", "no"),
            "cohort": any_of("Leeds", "Manchester", "Barcelona"),
            "age": numbers(30, 90),
            "bmi": numbers(18, 40, 1),
        },
        groups=None,
        first=["cohort"],
        tasks=["ORR", "PFS12", "age"],
        never=["Patient_ID"],
    ),
    Header(
        "water of lakes at depths",
        166,
        {
            "Lake": unit(18, "lake"),
            "Depth_m": any_of("0.5", "1", "2", "5", "10", "20"),
            "Temperature": numbers(4, 25, 1),
            "Layer": any_of("epilimnion", "hypolimnion"),
        },
        groups="Lake",
        repeated=["Depth_m"],
        first=["Depth_m", "Temperature"],
        tasks=["Layer"],
    ),
    Header(
        "offices: rooms hold rows of plates",
        200,
        {
            "OfficeSample": own("o"),
            "Office": unit(9, "office"),
            "City": any_of("Flagstaff", "San Diego", "Toronto"),
            "PlateLocation": any_of("floor", "wall", "ceiling"),
            "Material": any_of("drywall", "tile", "carpet"),
            "Run": any_of("1", "2"),
        },
        groups=None,
        first=["Material", "PlateLocation"],
        tasks=["City"],
        never=["Run"],
    ),
    Header(
        "chickens of farms",
        240,
        {
            "Bird.ID": unit(80, "b"),
            "Farm": inside(80, 16, "farm"),
            "Antibiotic_treatment": of_unit(80, "yes", "no"),
            "Age_days": any_of("7", "14", "21", "28", "35", "42"),
            "Pool": any_of("1", "2", "3"),
        },
        groups="Farm",
        first=["Antibiotic_treatment"],
        never=["Pool", "Bird.ID"],
    ),
    Header(
        "sponges and corals of a reef",
        120,
        {
            "host_scientific_name": any_of(*(f"Genus species{i}" for i in range(15))),
            "host_taxid": any_of(*map(str, range(6000, 6015))),
            "reef": any_of("north", "south", "middle"),
            "health_state": any_of("healthy", "bleached"),
            "depth": numbers(1, 30, 1),
        },
        groups=None,
        first=["health_state"],
        tasks=["depth", "reef"],
        never=["host_taxid"],
    ),
    Header(
        "Global Enteric Multicenter Study",
        300,
        {
            "pid": own("30"),
            "diarrhea": any_of("Case", "Control"),
            "age_months": numbers(0, 58),
            "country": any_of("Kenya", "Mali", "Gambia", "Bangladesh"),
        },
        groups=None,
        first=["age_months"],
        tasks=["diarrhea", "country"],
        never=["pid"],
    ),
    Header(
        "a spreadsheet of a first study",
        40,
        {
            "Sample name": own("my"),
            "Tube #": own(""),
            "Group": any_of("WT", "KO"),
            "Mouse #": lambda i: str(1 + i % 20),
            "Sex (M/F)": any_of("M", "F"),
            "DNA conc. (ng/ul)": numbers(1, 90, 1),
            "Notes": any_of("ok", "ok", "little"),
        },
        groups="Mouse #",
        first=["Group"],
        never=["Tube #", "DNA conc. (ng/ul)", "Notes"],
    ),
    Header(
        "time series of donors",
        250,
        {
            "host_individual": unit(2, "Donor"),
            "collection_day": numbers(0, 400),
            "travel": any_of("home", "abroad"),
        },
        groups="host_individual",
        first=["collection_day"],
    ),
    Header(
        "only what a laboratory knows: nothing to study",
        96,
        {**QIITA_PREPARATION},
        groups=None,
        first=[],
        never=LABORATORY,
    ),
]
