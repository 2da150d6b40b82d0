"""Where words and sentences lie in a text, in characters, for any script; and how to point at a place."""

from __future__ import annotations

import regex

from pathlens.types import Span

# Scripts written without spaces: a word is a run of one script, and a change of script is a border.
_UNSPACED = ("Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar")
_SCRIPT = regex.compile("|".join(rf"(?P<{script}>\p{{Script={script}}})" for script in _UNSPACED))
_PROLONGED = "ーｰ々〆"  # belong to the run they stand in, whatever its script
_APOSTROPHES = "'’ʼ＇"

_STOP = regex.compile(
    r"(?P<latin>[.!?…؟।॥]+)(?P<close>[\"'”’)\]»]*)(?=\s|$)"  # needs a space after it
    r"|(?P<wide>[。！？｡．]+[」』】）\"”’]*)"  # never has one
    r"|(?P<line>\s*\n\s*)"
)
# Abbreviations whose point does not end a sentence; those that may end one; those that need a number after.
_TITLES = frozenset(("dr", "mr", "mrs", "ms", "mx", "prof", "st", "gen", "sen", "rep", "gov", "capt", "lt"))
_NEVER_LAST = _TITLES | {"e.g", "i.e", "eg", "ie", "vs", "cf", "al"}
_OFTEN_LAST = frozenset(("etc", "inc", "ltd", "co", "corp", "jr", "sr", "ph.d"))
_BEFORE_NUMBER = frozenset(("no", "nr", "fig", "eq", "p", "pp", "vol", "ch", "sec"))
_LAST_WORD = regex.compile(r"[\w.]*\w$")


def word_spans(text: str) -> list[Span]:
    """Words, left to right: letters and digits joined by apostrophes; every other visible sign alone.

    Grapheme clusters are never cut (an emoji with its joiners and colours, a flag, a letter with its marks).
    "don't" is one word, "3.14" and "1,000" are one, "well-known" is three. Without spaces (Chinese,
    Japanese, Thai, Lao, Khmer, Burmese) a word is a run of one script.

    Limits: such a run is often several words; exact words can be given as spans.
    """
    clusters = [(match.start(), match.end()) for match in regex.finditer(r"\X", text)]
    kinds = [_kind(text[start:end]) for start, end in clusters]
    words: list[Span] = []
    open_kind = ""  # kind of the word still growing
    for i, (start, end) in enumerate(clusters):
        kind = kinds[i]
        if kind == "prolonged":
            kind = open_kind or "Katakana"
        elif kind == "sign" and open_kind and _joins(text, clusters, kinds, i):
            kind = open_kind
        if kind and kind != "sign" and kind == open_kind:
            words[-1] = (words[-1][0], end)
        elif kind:
            words.append((start, end))
        open_kind = "" if kind == "sign" else kind
    return words


def _kind(cluster: str) -> str:
    """Nothing for blanks, "sign" for punctuation and emoji, an unspaced script's name, else "word"."""
    head = cluster[0]
    if not cluster.strip():
        return ""
    if head in _PROLONGED:
        return "prolonged"
    if not regex.match(r"[\w\p{M}]", head):
        return "sign"
    match = _SCRIPT.match(head)
    return match.lastgroup or "word" if match else "word"


def _joins(text: str, clusters: list[Span], kinds: list[str], i: int) -> bool:
    """Does the sign at i hold its two neighbours together: an apostrophe in a word, a point in a number?"""
    if i + 1 >= len(clusters) or kinds[i - 1] != "word" or kinds[i + 1] != "word":
        return False
    sign = text[clusters[i][0] : clusters[i][1]]
    before, after = text[clusters[i - 1][0]], text[clusters[i + 1][0]]
    return sign in _APOSTROPHES or (sign in ".," and before.isdigit() and after.isdigit())


def sentence_spans(text: str) -> list[Span]:
    """Sentences, left to right, without whitespace around them; together they hold all visible characters.

    A sentence ends at . ! ? … before a space, at 。！？ anywhere, and at a line break. Not after titles and
    initials ("Dr.", "J."), not inside "e.g." and numbers, nor where dots trail off before a small letter.

    Limits: a modest list of English abbreviations; exact sentences can be given as spans.
    """
    spans, start = [], 0
    for match in _STOP.finditer(text):
        if match["latin"] and not _ends_sentence(text, match):
            continue
        spans.append((start, match.start() if match["line"] else match.end()))
        start = match.end()
    spans.append((start, len(text)))
    return [trim(text, *span) for span in spans if text[slice(*span)].strip()]


def trim(text: str, start: int, end: int) -> Span:
    """The span without the whitespace at its edges."""
    shown = text[start:end]
    start += len(shown) - len(shown.lstrip())
    return start, start + len(shown.strip())


def _ends_sentence(text: str, match: regex.Match) -> bool:
    """Is this stop the end of a sentence, or part of an abbreviation or a pause?"""
    rest = text[match.end() :].lstrip()
    if not rest:
        return True
    small = rest[0].islower()
    if match["latin"] in ("...", "…") or match["close"]:  # "Really?" she said
        return not small
    if match["latin"] != ".":
        return True
    word = _LAST_WORD.search(text, 0, match.start())
    last = word.group().lower() if word else ""
    if last in _NEVER_LAST or (last in _BEFORE_NUMBER and rest[0].isdigit()):
        return False
    if last in _OFTEN_LAST or regex.fullmatch(r"(?:\p{L}\.)+\p{L}", last):
        return not small
    return len(last) != 1 or not last.isalpha() or last == "i"  # an initial: "J. Smith"


def point_at(text: str, start: int, end: int | None = None, width: int = 60) -> str:
    """The text around a place with carets under it, for messages: two lines."""
    end = start + 1 if end is None else end
    start, end = sorted((max(0, min(start, len(text))), max(0, min(end, len(text)))))
    low = max(0, start - width // 2)
    high = min(len(text), low + width)
    shown = "".join(" " if character.isspace() else character for character in text[low:high])
    before, after = ("…" if low else ""), ("…" if high < len(text) else "")
    carets = "^" * max(1, min(end, high) - start)
    return f"  {before}{shown}{after}\n  {' ' * (len(before) + start - low)}{carets}"
