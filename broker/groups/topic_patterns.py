"""Regular expressions that members subscribe by, matched in a time that nobody can make long. Pure.

Kafka takes RE2's syntax and matches whole names. Python's own ``re`` backtracks: one pattern of twenty letters can hold
an event loop for hours, in a thread too, for it keeps the interpreter to itself. So a pattern becomes a small automaton here,
whose states are all followed at once, as the bits of a number: a letter of a name costs at most ``STATES_MAX`` small steps, and
what was found out once is remembered. What no such automaton can do (look around, refer back) RE2 cannot either.
"""

import string
import sys
from collections.abc import Iterable
from typing import NamedTuple

from ottla.wire.errors import InvalidRegularExpression

PATTERN_MAX = 1000
"""Letters of a pattern."""
STATES_MAX = 1000
"""Of its automaton: what is repeated counts as often as it is."""
DEPTH_MAX = 50
"""Parentheses in parentheses."""
REPEAT_MAX = 1000
"""As in RE2."""
REMEMBERED_MAX = 10_000
"""Steps of an automaton, half a kilobyte each; with more, it begins to remember anew."""

ALPHABET = frozenset(string.ascii_letters + string.digits + "._-")
"""What topics' names are made of: nothing else needs to be told apart."""

_DIGITS, _WORD = frozenset(string.digits), frozenset(string.ascii_letters + string.digits + "_")
_CLASSES = {
    "d": _DIGITS, "D": ALPHABET - _DIGITS, "w": _WORD, "W": ALPHABET - _WORD, "s": frozenset[str](), "S": ALPHABET,
}  # fmt: skip
_NAMED = {
    "alpha": frozenset(string.ascii_letters), "digit": _DIGITS, "alnum": frozenset(string.ascii_letters + string.digits),
    "lower": frozenset(string.ascii_lowercase), "upper": frozenset(string.ascii_uppercase), "word": _WORD,
    "punct": frozenset("._-"), "space": frozenset[str](), "xdigit": frozenset(string.hexdigits),
}  # fmt: skip


STEPS_INLINE = 20_000
"""Steps of automatons for which a group may be decided about at once, about ten milliseconds; with more, a thread matches."""


STEPS_MAX = 10_000_000
"""Steps in a thread, about three seconds; a pattern that takes more is refused. Simple ones take a step for each letter."""


class OutOfSteps(Exception):
    """A pattern needs more steps than it was given."""


class Take(NamedTuple):
    """One letter of these."""

    letters: frozenset[str]


class Go(NamedTuple):
    """On at all of these places, counted from here."""

    steps: tuple[int, ...]


class At(NamedTuple):
    """Only at the beginning of the name, or at its end."""

    end: bool


Code = list[Take | Go | At]


class TopicPattern:
    """A pattern; InvalidRegularExpression if it is none, or too large a one."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > PATTERN_MAX:
            raise InvalidRegularExpression(f"a pattern of {len(pattern)} letters; allowed are {PATTERN_MAX}")
        self.pattern = pattern
        self.steps_left = sys.maxsize
        """With none left OutOfSteps is raised."""
        self._code = _Parser(pattern).parse()
        self._end = 1 << len(self._code)
        self._takes: dict[str, int] = {}
        """Where each letter is taken."""
        self._stays = self._end
        """Where a letter is taken, or nothing is left to match."""
        for place, one in enumerate(self._code):
            if isinstance(one, Take):
                self._stays |= 1 << place
                for letter in one.letters:
                    self._takes[letter] = self._takes.get(letter, 0) | 1 << place
        self._knows_end = At(end=True) in self._code
        self._reach: dict[tuple[int, bool], int] = {}
        self._known: dict[int, tuple[int, bool]] = {}
        self._start = self._follow(1, at_start=True)

    def matching(self, names: Iterable[str]) -> set[str]:
        """Those of which it is the whole."""
        found = {name for name in names if self.matches(name)}
        self._known.clear()  # it is large beside what was found, and there may be many patterns
        return found

    def matches(self, name: str) -> bool:
        """Whether it is the whole of a name."""
        places, whole = self._start
        self._spend(len(name))
        for letter in name:
            taken = (places & self._takes.get(letter, 0)) << 1
            if not taken:
                return False
            known = self._known.get(taken)
            if known is None:
                if len(self._known) >= REMEMBERED_MAX:
                    self._known.clear()
                known = self._known[taken] = self._follow(taken)
            places, whole = known
        return whole

    def _follow(self, places: int, *, at_start: bool = False) -> tuple[int, bool]:
        """Where the next letter is taken, and whether nothing is left to match if there is none."""
        reached = self._all_from(places, at_start=at_start, at_end=False)
        last = self._all_from(places, at_start=at_start, at_end=True) if self._knows_end else reached
        return reached & self._stays, bool(last & self._end)

    def _all_from(self, places: int, *, at_start: bool, at_end: bool) -> int:
        reached, to_see = places, places & ~self._stays
        while to_see:
            self._spend(1)
            place = (to_see & -to_see).bit_length() - 1
            further = self._reach.get((place, at_end)) if not at_start else None
            if further is None:
                further = self._from(place, at_start, at_end)
                if not at_start:
                    self._reach[place, at_end] = further
            reached |= further
            to_see &= ~further
        return reached

    def _from(self, place: int, at_start: bool, at_end: bool) -> int:
        """Itself, and all places that can be reached from there without a letter."""
        seen, to_see = {place}, [place]
        while to_see:
            here = to_see.pop()
            one = self._code[here] if here < len(self._code) else None
            further: list[int] = []
            if isinstance(one, Go):
                further = [here + step for step in one.steps]
            elif isinstance(one, At) and (at_end if one.end else at_start):
                further = [here + 1]
            to_see += [next_one for next_one in further if next_one not in seen]
            seen.update(further)
        self._spend(len(seen))
        return sum(1 << each for each in seen)

    def _spend(self, steps: int) -> None:
        self.steps_left -= steps
        if self.steps_left < 0:
            raise OutOfSteps


class Matched(NamedTuple):
    """A pattern, the topics that were looked at, and those of them that it matches."""

    pattern: TopicPattern
    looked: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    is_refused: bool = False
    """Whether it takes too many steps even for a thread."""

    def look(self, names: frozenset[str]) -> "Matched":
        """Only what is new is looked at. OutOfSteps if that takes more steps than the pattern has left."""
        if names == self.looked:
            return self
        return Matched(self.pattern, names, (self.names & names) | self.pattern.matching(names - self.looked))

    def look_within(self, names: frozenset[str], steps: int) -> tuple["Matched", int]:
        """The same with so many steps, and how many are left."""
        if steps <= 0 and names != self.looked:
            raise OutOfSteps
        self.pattern.steps_left = steps
        try:
            return self.look(names), self.pattern.steps_left
        finally:
            self.pattern.steps_left = sys.maxsize


def match_slow(pattern: str, names: frozenset[str], steps_max: int = STEPS_MAX) -> Matched:
    """What a pattern matches, for a thread; ``is_refused`` if that takes too many steps."""
    unmatched = Matched(TopicPattern(pattern))
    try:
        return unmatched.look_within(names, steps_max)[0]
    except OutOfSteps:
        return unmatched._replace(is_refused=True)


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._depth = 0
        self._ignores_case = False

    def parse(self) -> Code:
        code = self._either()
        if self._at < len(self._pattern):
            raise self._wrong("a ) that nothing was opened for")
        return code

    def _wrong(self, why: str) -> InvalidRegularExpression:
        return InvalidRegularExpression(f"{self._pattern[:100]!r}, at letter {self._at}: {why}")

    def _peek(self) -> str:
        return self._pattern[self._at] if self._at < len(self._pattern) else ""

    def _next(self) -> str:
        letter = self._peek()
        if not letter:
            raise self._wrong("it ends too early")
        self._at += 1
        return letter

    def _takes(self, text: str) -> bool:
        if self._pattern.startswith(text, self._at):
            self._at += len(text)
            return True
        return False

    def _small(self, code: Code) -> Code:
        if len(code) > STATES_MAX:
            raise self._wrong(f"it needs more than {STATES_MAX} states")
        return code

    def _either(self) -> Code:
        code = self._sequence()
        while self._takes("|"):
            other = self._sequence()
            code = self._small([Go((1, len(code) + 2)), *code, Go((len(other) + 1,)), *other])
        return code

    def _sequence(self) -> Code:
        code: Code = []
        while self._peek() not in ("", "|", ")"):
            code = self._small(code + self._repeated(self._one()))
        return code

    def _repeated(self, code: Code) -> Code:
        while (sign := self._peek()) and sign in "*+?{":
            least, most = self._bounds()
            self._takes("?")  # few or many: the same names match
            size = len(code) + 2
            if (least + (1 if most is None else most - least)) * size > STATES_MAX + size:
                raise self._wrong(f"it needs more than {STATES_MAX} states")
            more: Code
            if most is None:
                more = [Go((1, len(code) + 2)), *code, Go((-(len(code) + 1),))]
            else:
                more = [Go((1, len(code) + 1)), *code] * (most - least)
            code = self._small(code * least + more)
        return code

    def _bounds(self) -> tuple[int, int | None]:
        sign = self._next()
        if sign != "{":
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
        end = self._pattern.find("}", self._at)
        first, comma, last = self._pattern[self._at : max(end, self._at)].partition(",")
        if end < 0 or not _is_number(first) or (last and not _is_number(last)):
            raise self._wrong("a { that begins no {least,most}")
        self._at = end + 1
        least = int(first)
        most = (int(last) if last else None) if comma else least
        if least > REPEAT_MAX or (most is not None and not least <= most <= REPEAT_MAX):
            raise self._wrong(f"a repetition that is out of order, or more than {REPEAT_MAX}")
        return least, most

    def _one(self) -> Code:
        letter = self._next()
        if letter == "(":
            return self._group()
        if letter == "[":
            return [Take(self._class())]
        if letter == ".":
            return [Take(ALPHABET)]
        if letter in "^$":
            return [At(letter == "$")]
        if letter in "*+?{":
            raise self._wrong(f"nothing to repeat with {letter}")
        return self._escaped() if letter == "\\" else [Take(self._cases(letter))]

    def _group(self) -> Code:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._wrong(f"more than {DEPTH_MAX} parentheses in each other")
        before = self._ignores_case
        if self._takes("?"):
            if self._takes("i)"):
                self._depth -= 1
                self._ignores_case = True
                return []
            if self._takes("i:"):
                self._ignores_case = True
            elif self._takes("P<") or (self._takes("<") and self._peek() not in "=!"):
                end = self._pattern.find(">", self._at)
                if end <= self._at:
                    raise self._wrong("a group whose name does not end")
                self._at = end + 1
            elif not self._takes(":"):
                raise self._wrong("a kind of group that is not understood")
        code = self._either()
        if not self._takes(")"):
            raise self._wrong("a ( that is not closed")
        self._depth -= 1
        self._ignores_case = before
        return code

    def _escaped(self) -> Code:
        letter = self._next()
        if letter in _CLASSES:
            return [Take(_CLASSES[letter])]
        if letter in "Az":
            return [At(letter == "z")]
        if letter == "Q":
            end = self._pattern.find("\\E", self._at)
            text = self._pattern[self._at : end if end >= 0 else None]
            self._at += len(text) + (2 if end >= 0 else 0)
            return [Take(self._cases(each)) for each in text]
        if letter.isalnum():
            raise self._wrong(f"\\{letter} is not understood")
        return [Take(self._cases(letter))]

    def _class(self) -> frozenset[str]:
        negated = self._takes("^")
        letters: set[str] = set()
        first = True
        while first or self._peek() != "]":
            first = False
            if self._takes("[:"):
                letters |= self._named_class()
                continue
            low = self._class_letter()
            if isinstance(low, frozenset):
                letters |= low
            elif self._peek() == "-" and self._pattern[self._at + 1 : self._at + 2] not in ("", "]"):
                self._at += 1
                high = self._class_letter()
                if isinstance(high, frozenset) or high < low:
                    raise self._wrong("a range that is out of order")
                letters |= {each for each in ALPHABET if low <= each <= high}
            else:
                letters.add(low)
        self._at += 1
        if self._ignores_case:
            letters |= {each.swapcase() for each in letters}
        return frozenset(ALPHABET - letters if negated else ALPHABET & letters)

    def _named_class(self) -> frozenset[str]:
        end = self._pattern.find(":]", self._at)
        name = self._pattern[self._at : max(end, self._at)]
        if end < 0 or name not in _NAMED:
            raise self._wrong(f"no class of letters is called {name[:20]!r}")
        self._at = end + 2
        return _NAMED[name]

    def _class_letter(self) -> str | frozenset[str]:
        letter = self._next()
        if letter != "\\":
            return letter
        letter = self._next()
        if letter not in _CLASSES and letter.isalnum():
            raise self._wrong(f"\\{letter} is not understood")
        return _CLASSES.get(letter, letter)

    def _cases(self, letter: str) -> frozenset[str]:
        return frozenset((letter, letter.swapcase()) if self._ignores_case else (letter,))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 4
