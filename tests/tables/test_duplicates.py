"""Which rows a model was trained on."""

from hashlib import sha256

from outland.tables.duplicates import are_training_rows, sorted_hashes, text_hash, training_rows_note


def test_rows_of_the_training_set_are_known_again():
    assert text_hash(" CCO\n") == int.from_bytes(sha256(b"CCO").digest()[:8], "little", signed=True)
    hashes = sorted_hashes(["CCO", "CCN", "CCO"])
    assert (len(hashes), hashes.tolist()) == (2, sorted(hashes.tolist()))
    assert are_training_rows(["CCN", "OCC", " CCO", "CCC"], hashes) == [True, False, True, False]
    assert are_training_rows(["CCN"], hashes[:0]) == [False]


def test_a_note_says_how_many_there_were():
    assert training_rows_note(1, 3) == (
        "1 of these 3 rows was in the model's training (or chose its epoch): its errors here flatter it"
    )
    assert training_rows_note(2, 3).startswith("2 of these 3 rows were in the model's training")
    assert training_rows_note(0, 3) == ""
