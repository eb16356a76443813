from tests.cases import MethodCase


class TestERM(MethodCase):
    name = "erm"
    zero = {}
