import re

from outland.report.molecule_svg import draw_contributions, draw_molecule, draw_piece, signed_colour


def test_colours_follow_sign_and_size():
    drawing = draw_contributions("CCO", [1.0, 0.5, -0.25], 1.0)
    circles = re.findall(r'<circle fill="(#\w+)".*?data-value="(\S+)"', drawing)
    assert circles == [(signed_colour(-0.25), "-0.25"), (signed_colour(0.5), "+0.5"), (signed_colour(1.0), "+1")]
    assert drawing.count('class="halo"') == 1  # the ends of the other bond disagree
    assert "#FF0000" not in drawing  # letters are black
    assert "<circle" not in draw_contributions("C", [0.05], 1.0)
    assert signed_colour(0) == "#ffffff"
    assert signed_colour(7) == signed_colour(1)
    red, blue = (int(signed_colour(sign)[1:], 16) for sign in (1, -1))
    assert red >> 16 > (red & 255)
    assert blue >> 16 < (blue & 255)


def test_shading_follows_the_weights():
    drawing = draw_molecule("CCO", [0.9, 0.2, 0.5], [0.1, 0.8])
    assert drawing.count("<circle") == 2
    assert drawing.count('class="shade"') == 1
    assert "opacity:0.85" in drawing  # 0.25 + 0.75 · (0.9 − 0.5) / 0.5
    assert drawing.count('class="pale"') >= 1
    assert 'fill="#FF0000"' in drawing  # the letter O
    assert '"><' not in draw_molecule("CCO", [1] * 3, [1] * 2).split(">", 1)[0]
    assert draw_piece("c1ccccc1").count("<path") >= 6
    assert draw_piece("cc").startswith("<svg")  # no molecule of its own, and drawn
    phenol, alcohol = (draw_piece(smiles).count("<path") for smiles in ("cO", "CO"))
    assert phenol == alcohol + 2  # the letters of Ar


def test_a_constant_mask_is_not_drawn():
    drawing = draw_molecule("CCO", (0.9, 0.2, 0.6), None)
    assert (drawing.count("<circle"), drawing.count('class="shade"')) == (2, 0)
    assert drawing.count('class="pale"') >= 2  # both bonds end at the pale atom
    drawing = draw_molecule("CCO", None, (0.9, 0.2))
    assert (drawing.count("<circle"), drawing.count('class="shade"')) == (0, 1)
    assert "pale" not in draw_molecule("CCO", None, None)
