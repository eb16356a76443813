from outland.report.molecule_svg import draw_molecule, draw_piece


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


def test_a_constant_mask_is_not_drawn():
    drawing = draw_molecule("CCO", (0.9, 0.2, 0.6), None)
    assert (drawing.count("<circle"), drawing.count('class="shade"')) == (2, 0)
    assert drawing.count('class="pale"') >= 2  # both bonds end at the pale atom
    drawing = draw_molecule("CCO", None, (0.9, 0.2))
    assert (drawing.count("<circle"), drawing.count('class="shade"')) == (0, 1)
    assert "pale" not in draw_molecule("CCO", None, None)
