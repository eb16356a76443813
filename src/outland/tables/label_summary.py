"""What is in a target column: counts and different values of its labels, and the task that they ask for."""

from dataclasses import dataclass, field

from outland.chem.smiles import has_invalid_utf8
from outland.errors import OutlandError, counted, listed
from outland.tables.cells import is_missing, is_quantity, parse_limit, parse_number, parse_yes_no

MAX_CLASSES = 50
_MAX_NUMBERED_CLASSES = 10
_MAX_NAMED_CLASSES = 10  # above which names are looked at twice


@dataclass
class LabelSummary:
    """Counts and different values of one target column."""

    name: str
    decimal_comma: bool
    merge: bool = False
    known: int = 0
    numeric: int = 0
    limits: int = 0  # labels such as `>10`
    limit: str = ""  # the first of them
    quantities: int = 0  # labels such as `3.2 uM`
    quantity: str = ""  # the first of them
    words: int = 0  # labels that are neither of these nor numbers
    word: str = ""  # the first of them
    minuses: int = 0  # cells that hold `-`, a label where others hold `+`, and else a gap
    numbers: set[float] = field(default_factory=set)
    texts: dict[str, str] = field(default_factory=dict)  # in lower case, and as the first of them is spelled

    @property
    def example(self) -> str:
        """One of the labels."""
        return self.texts[min(self.texts)]

    @property
    def has_signs(self) -> bool:
        """Whether `-` is a label."""
        return self.minuses > 0 and "+" in self.texts

    @property
    def has_units(self) -> bool:
        """Whether labels that are no numbers are mostly ones with something beside them."""
        return self.quantities > self.words + (0 if self.numeric else self.limits)

    def add(self, text: str) -> None:
        """Count a cell."""
        if text.strip() == "-":
            self.minuses += 1
        elif not is_missing(text) and not has_invalid_utf8(text):
            self._add_label(text)

    def finish(self) -> None:
        """Take `-` as a label where there is `+`; all cells have been added."""
        for _ in range(self.minuses if self.has_signs else 0):
            self._add_label("-")

    def _add_label(self, text: str) -> None:
        self.known += 1
        value = parse_number(text, self.decimal_comma)
        if value is None and self.merge:
            value = parse_yes_no(text)
        if value is not None:
            self.numeric += 1
            if len(self.numbers) <= MAX_CLASSES:
                self.numbers.add(value)
        elif parse_limit(text, self.decimal_comma) is not None:
            self.limits += 1
            self.limit = self.limit or text.strip()[:40]
        elif is_quantity(text):
            self.quantities += 1
            self.quantity = self.quantity or text.strip()[:40]
        else:
            self.words += 1
            self.word = self.word or text.strip()[:40]
        if len(self.texts) <= MAX_CLASSES:
            self.texts.setdefault(text.strip().lower(), text.strip())

    def is_numeric(self, task: str) -> bool:
        """Whether the labels are numbers, except for mistakes in single rows."""
        if not self.known:
            raise OutlandError(f"the target column '{self.name}' has no labels at all")
        self._ask_to_merge(task)
        share = (self.numeric + (self.limits if self.numeric else 0)) / self.known
        if 0.5 <= share < 0.9 and task == "auto":
            if self.has_units:
                raise self._units("; --task regression sets these rows aside; if they are names, say --task multiclass")
            raise OutlandError(
                f"{1 - share:.0%} of the labels in '{self.name}' are no numbers, such as {self.word!r}: "
                "say what they are with --task binary, multiclass or regression"
            )
        return share >= 0.5 if task in ("binary", "regression") else share >= 0.9

    def _ask_to_merge(self, task: str) -> None:
        """Ask whether words for yes and no are to be merged, where there are more than two."""
        meanings = {text: parse_yes_no(text) for text in sorted(self.texts)}
        if self.merge or task == "multiclass" or len(meanings) < 3 or None in meanings.values():
            return
        if all(parse_number(text) is not None for text in meanings):
            return  # TRUE is 1 wherever there are numbers
        groups = [
            listed([repr(self.texts[text]) for text, value in meanings.items() if value == number])
            for number in (1.0, 0.0)
        ]
        raise OutlandError(
            f"'{self.name}' holds {len(meanings)} different labels that may mean two: {groups[0]} for 1, "
            f"{groups[1]} for 0. Merge them with --merge-labels, or keep them apart with --task multiclass"
        )

    def check_limits(self) -> None:
        """Ask what is to become of limits among numbers."""
        if self.limits:
            raise OutlandError(
                f"{counted(self.limits, 'label')} of {self.known:,} in '{self.name}' "
                f"{'is a limit' if self.limits == 1 else 'are limits'}, such as {self.limit!r}: "
                "--censored drop leaves them out, --censored value takes the numbers as if they were measured"
            )

    def infer_task(self, task: str) -> str:
        """The task that the user named, or for `auto` that of the values."""
        if task == "regression" and self.has_units and not self.is_numeric(task):
            raise self._units()
        if task != "auto":
            return task
        if self.is_numeric(task):
            if self.numbers <= {0.0, 1.0} and not self.limits:
                return "binary"
            whole = all(value == int(value) for value in self.numbers)
            few = len(self.numbers) <= _MAX_NUMBERED_CLASSES
            return "multiclass" if whole and few and not self.limits else "regression"
        self._check_names()
        return "binary" if len(self.texts) <= 2 else "multiclass"

    def _check_names(self) -> None:
        """Refuse names that are hardly meant for classes: numbers with something beside them, and a name for a row."""
        if len(self.texts) <= _MAX_NAMED_CLASSES:
            return
        if self.has_units:
            raise self._units("; if they are names, say --task multiclass")
        if len(self.texts) <= MAX_CLASSES and 2 * len(self.texts) > self.known:
            raise OutlandError(
                f"the target column '{self.name}' holds neither numbers nor classes: {len(self.texts)} different "
                f"labels in {counted(self.known, 'row')}, such as {self.example!r}; if they are classes all "
                "the same, say --task multiclass"
            )

    def _units(self, otherwise: str = "") -> OutlandError:
        """The error of numbers with something beside them, and what to do if they are to stay."""
        share = self.quantities / self.known
        return OutlandError(
            f"{'most' if share > 0.5 else f'{share:.0%} of the'} labels in '{self.name}' are numbers with something "
            f"else beside them, such as {self.quantity!r}: leave the number alone in its cell, in one unit for all "
            f"rows{otherwise}"
        )
