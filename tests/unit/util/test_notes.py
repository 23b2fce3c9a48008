"""Decisions for the user: collected from warnings, written, and read again."""

import logging

from aam.util.notes import CAUTION, Note, collect_notes, read_notes, write_notes


def test_every_warning_of_the_package_is_a_note_once(tmp_path):
    logger = logging.getLogger("aam.data.importing.somewhere")
    logger.warning("before")
    with collect_notes() as notes:
        for _ in range(2):
            logger.warning("%d samples\n\tare 'left out'", 3)
        logger.info("no decision")
        logging.getLogger("elsewhere").warning("not ours")
        logger.warning("NA", extra=CAUTION)
    logger.warning("after")
    expected = [Note("3 samples are 'left out'"), Note("NA", is_caution=True)]
    assert notes == expected
    write_notes(tmp_path / "notes.tsv", notes)
    assert read_notes(tmp_path / "notes.tsv") == expected
    write_notes(tmp_path / "none.tsv", [])
    assert read_notes(tmp_path / "none.tsv") == []
