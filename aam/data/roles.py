"""What a metadata column is by its name: a unit, a finding, a record of a laboratory or archive.

Names are compared word by word, however they are written: `HOST_SUBJECT_ID`, `hostSubjectId` and
`Host subject ID` have the same words. A name is only a hint, so what is proposed from it is always
said, and a configuration always wins.
"""

import re
from collections.abc import Iterable
from enum import IntEnum
from functools import cache

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_]+")
"""Runs of capitals, words that may begin with one, and words of other scripts; digits split."""

_ID = frozenset("id ids no nr num number numbers name code identifier index key s".split())
"""Words behind the name of a unit that leave it a unit: a patient's number is a patient."""
_BEFORE_ID = frozenset("host study anonymized unique the main source deidentified".split())
"""Words before the name of a unit that leave it a unit."""

_PERSONS = frozenset(
    "subject subjects individual individuals patient patients participant participants person "
    "persons people donor donors volunteer volunteers host hosts animal animals mouse mice rat "
    "rats monkey monkeys macaque baboon chimp chimpanzee pig piglet cow calf cattle sheep goat "
    "horse dog cat chicken bird fish bat infant infants baby babies child children toddler twin "
    "mother maternal pid iid ind patienten proband probanden tier tiere maus paciente pacientes "
    "sujet sujeto individu individuo souris".split()
)
"""What a sample can be of: one being, sampled several times."""
_HOMES = frozenset(
    "family families household households home homes house houses cage cages litter pen pens tank "
    "tanks herd flock farm farms colony dam couple pair pedigree fid hive nest aquarium familie "
    "haushalt famille foyer familia hogar".split()
)
"""What several beings, or samples without a being, share."""
_PLACES = frozenset("site sites plot plots station cube location block pond lake tree core".split())
"""What may be a unit where it has many values, and is otherwise what people want to predict."""
_NEVER_UNITS = frozenset(
    "sample samples sampleid specimen biosample accession experiment aliquot vial swab sra ena ers "
    "srs srr err srx taxon tax taxid scientific common species project bioproject study".split()
)
"""Words of IDs of samples, files and studies, which are no units of a study."""

_TECHNICAL = frozenset(
    "run runs runid plate plates plateid plating lane lanes batch batches library libraries center "
    "centers centre centres well wells tube tubes robot tool lot mastermix linker flowcell kit "
    "kits operator technician machine seq pcr adapter multiplex pool amplicon dna rna aliquot "
    "freezer box shipment read reads nonchim denoised nanodrop qubit protocol".split()
)
"""Words of columns on how and where samples were processed. Whole words count: a template and
platelets are no plates, a trunk is no run."""
_TECHNICAL_STEMS = ("barcode", "primer", "extract", "sequenc", "instrument", "platform")
"""Beginnings of such words."""
_STUDY = frozenset("study studyid project projectid qiita accession title".split())
"""Words of which the name of a column of studies consists: an arm of a study is none."""
_STUDIES = (
    frozenset("cohort cohorts dataset datasets".split()),
    frozenset("center centers centre centres hospital hospitals clinic clinics country".split()),
    frozenset("run runs batch batches".split()),
)
"""Words of columns that divide samples as studies do, beside those of studies themselves."""
_ARCHIVE_WORDS = frozenset(
    "bases mbases bytes mbytes spot spots insert load assay consent "
    "datastore filetype provider biosample bioproject accession sra ena submission taxid taxon "
    "scientific organism latitude longitude lat lon elevation altitude title description url doi "
    "pubmed email comment comments note notes filename path timestamp date year specimen remaining "
    "summary fold anonymized".split()
)
"""Words of columns that an archive fills in, which no study is made to predict."""
_NO_TARGETS = frozenset({"month", "day"})
"""Whole names of such columns: a month of life may be predicted, one of the calendar not."""

_FINDINGS = tuple(
    frozenset(words.split())
    for words in (
        "disease diagnosis diagnose diagnostic dx krankheit maladie enfermedad status case "
        "condition phenotype outcome response responder survival severity stage relapse "
        "remission infection infected cancer tumor tumour carcinoma adenoma diabetes diabetic "
        "ibd crohn crohns colitis autism asthma allergy eczema obese obesity depression "
        "parkinson alzheimer health healthy affected symptom symptoms flare cirrhosis "
        "hypertension",
        "site body tissue organ habitat environment env biome soil material location "
        "compartment sample type substrate crop season",
        "treatment treated arm intervention drug medication antibiotic antibiotics diet dose "
        "group gruppe groupe grupo genotype strain exposure exposed delivery birth feeding "
        "smoker smoking vaccine probiotic randomization cohort",
        "age alter edad day days week weeks month months time pmi ph temperature temp depth "
        "moisture salinity bmi weight nitrogen carbon oxygen score",
    )
)
"""Words of what people study, the most likely first: health, places, treatments, quantities."""

_CIRCUMSTANCES = {
    kind: frozenset(words.split())
    for kind, words in {
        "sex": "sex gender male female geschlecht sexe sexo",
        "time": "age ages alter edad day days date week weeks month months year years season visit "
        "timepoint time birthday",
        "body": "bmi weight height waist obese obesity overweight",
        "origin": "race ethnicity ethnic ancestry country nationality region province city town "
        "village district street geo loc location site home house household cage pen room",
        "birth": "delivery birth birthmode csection cesarean caesarean vaginal gestation "
        "gestational parity",
        "food": "diet diets feeding fed feed food breastfed breastfeeding formula milk",
        "drugs": "antibiotic antibiotics abx medication medications drug drugs smoker smoking "
        "smoke probiotic probiotics metformin ppi",
    }.items()
}
"""Words of columns on whom, where and when a sample was taken from, by what they are about."""

_COURSES = (
    frozenset(
        "day days week weeks month months hour hours minute minutes timepoint timepoints time "
        "times tp dpi visit visits session wave tag woche monat jour semaine mois".split()
    ),
    frozenset("age ages alter edad year years".split()),
    frozenset("date dates datum fecha timestamp".split()),
)
"""Words of columns that say when samples were taken, those of a course before calendars."""
_NO_COURSES = frozenset(
    "sleep transit meal fasting fasted exercise screen per storage stored frozen freezing release "
    "released submission submitted publication published update load received shipped".split()
)
"""Words of columns on how long something lasts, or when a sample was handled."""

_STATE = re.compile(
    r"(healthy|normal|disease\w*|ill|sick|un?affected|cases?|controls?|ctrl|patients?|hc|treated"
    r"|untreated|placebo|positive|negative|yes|no|male|female|wt|ko|wild[ _-]?type|knock[ _-]?out)"
    r"([ _-]?(controls?|subjects?|patients?|group))?",
    re.IGNORECASE,
)
"""Values of a column that says how a being is, not which being it is."""
_BLANK = re.compile(
    r"(?<![a-z])(blanks?|ntc|no[ _.-]?template|mock[ _.-]?communit\w*|zymo\w*"
    r"|(neg|negative|pos|positive)[ _.-]?(control|ctrl|ctl|pcr)s?"
    r"|(pcr|extraction|kit|reagent|water|buffer|library)[ _.-]?(neg\w*|control|ctrl)s?)"
    r"(?![a-z])",
    re.IGNORECASE,
)
"""Names of samples without a specimen: of reagents, or of known mixtures."""
_SAMPLE_KINDS = frozenset("type kind control description empo material category sampletype".split())
"""Words of columns whose values say that a sample is a blank."""


@cache
def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a column's name in small letters, without digits and separators.

    Parameters
    ----------
    name
        The name as the metadata has it.
    """
    return tuple(word.casefold() for word in _WORD.findall(name))


def is_technical(name: str) -> bool:
    """Return whether a column is on how, where or in which study samples were processed."""
    words = words_of(name)
    has_stem = any(word.startswith(_TECHNICAL_STEMS) for word in words)
    return names_study(name) or has_stem or not _TECHNICAL.isdisjoint(words)


def names_study(name: str) -> bool:
    """Return whether a column says of which study a sample is, or which number it has in it."""
    core = {word for word in words_of(name) if word not in _ID}
    return core <= _STUDY and any(word.startswith(("study", "project")) for word in core)


def study_rank(name: str) -> int | None:
    """Return how surely a column divides samples as studies do, by its name: 0 is surest.

    Parameters
    ----------
    name
        Name of the column.

    Returns
    -------
    int or None
        0 for studies, then cohorts, centers, and runs; None: for nothing that would be left out as
        a whole.
    """
    if names_study(name):
        return 0
    words = [word for word in words_of(name) if word not in _ID]
    last = words[-1] if words else ""
    for rank, known in enumerate(_STUDIES, start=1):
        if last in known:
            return rank
    return None


def time_rank(name: str) -> int | None:
    """Return how surely a column says when samples of one being were taken, by its name.

    Parameters
    ----------
    name
        Name of the column.

    Returns
    -------
    int or None
        0 for days, visits and the like, then ages, and dates; None: it says no such time.
    """
    words = set(words_of(name))
    if is_technical(name) or not words.isdisjoint(_NO_COURSES):
        return None
    ranks = [rank for rank, known in enumerate(_COURSES) if not words.isdisjoint(known)]
    return min(ranks, default=None)


def circumstance(name: str) -> str | None:
    """Return what a column says of whom, where or when a sample was taken from.

    Parameters
    ----------
    name
        Name of the column.

    Returns
    -------
    str or None
        sex, time, body, origin, birth, food or drugs: columns of one of these may be names of each
        other. None: it says none of them.
    """
    words = set(words_of(name))
    for kind, known in _CIRCUMSTANCES.items():
        if not words.isdisjoint(known):
            return kind
    return None


def is_of_archive(name: str) -> bool:
    """Return whether an archive fills in a column: IDs of samples, sizes of files, dates."""
    words = words_of(name)
    names_samples = bool(words) and set(words) - _ID <= _NEVER_UNITS
    is_known = not _ARCHIVE_WORDS.isdisjoint(words) or " ".join(words) in _NO_TARGETS
    return is_known or names_samples


def is_id(name: str) -> bool:
    """Return whether a column holds IDs of something, by its name."""
    return words_of(name)[-1:] in (("id",), ("ids",))


class UnitName(IntEnum):
    """What the name of a column says of units, the surest first."""

    UNIT = 0
    """It names persons, animals, or what they share, such as a home."""
    ABOUT_UNITS = 1
    """It is about one of these, as `family_of_origin`: many names may be those of units."""
    PLACE = 2
    """It names places: many of them may be units, few are what people predict."""
    OTHER_ID = 3
    """It ends as names of IDs do."""


def unit_name(name: str) -> UnitName | None:
    """Return how surely a column says which samples are of one unit, by its name.

    Parameters
    ----------
    name
        Name of the column.

    Returns
    -------
    UnitName or None
        None: it is technical, an ID of samples, or no ID.
    """
    words = words_of(name)
    core = tuple(word for word in words if word not in _ID)
    kinds = _PERSONS | _HOMES
    if core and core[-1] in kinds and set(core) <= kinds | _BEFORE_ID:
        return UnitName.UNIT
    if is_technical(name) or not _NEVER_UNITS.isdisjoint(words):
        return None
    if not kinds.isdisjoint(words):
        return UnitName.ABOUT_UNITS
    if is_id(name):
        return None if is_of_archive(name) else UnitName.OTHER_ID
    return UnitName.PLACE if len(core) == 1 and core[0] in _PLACES else None


def names_units(name: str) -> bool:
    """Return whether a column names units, also where it holds numbers or few values."""
    return unit_name(name) in (UnitName.UNIT, UnitName.OTHER_ID)


def finding_rank(name: str) -> int:
    """Return how likely a column is what a study was made for, by its name: 0 is likeliest.

    Parameters
    ----------
    name
        Name of the column.
    """
    words = {*words_of(name), name.casefold()}
    for rank, known in enumerate(_FINDINGS):
        if not words.isdisjoint(known):
            return rank
    return len(_FINDINGS)


def are_states(values: Iterable[str]) -> bool:
    """Return whether values say in which state a being is, such as case and control.

    A column `Subject` with these values is a diagnosis, and no unit.

    Parameters
    ----------
    values
        Different values of a column.
    """
    return any(_STATE.fullmatch(value.strip()) for value in values)


def is_blank(text: str) -> bool:
    """Return whether an ID, or a value that says what a sample is, names a control sample."""
    return _BLANK.search(text) is not None


def says_kind_of_sample(name: str) -> bool:
    """Return whether values of a column may say that a sample is a blank, by its name."""
    return not _SAMPLE_KINDS.isdisjoint(words_of(name))
