"""Text whose literals and quoted names are single characters, so that a pattern for words never matches inside them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

_FIRST_NAME, _FIRST_TEXT, _MOST = 0xE000, 0xF000, 0x800
_QUOTED = re.compile(r"'[^']*(?:''[^']*)*'|\"[^\"]*(?:\"\"[^\"]*)*\"")
NAME = "(?:[^\\W\\d]\\w*|[\ue000-\ue7ff])"
TEXT = "[\uf000-\uf7ff]"
_PRIVATE = re.compile("[\ue000-\uf8ff]")


class Masked:
    """A question's text with placeholders; ``unmask`` brings the literals and names back."""

    def __init__(self, text: str) -> None:
        self._kept: dict[str, str] = {}
        self.text = _QUOTED.sub(self._keep, _PRIVATE.sub("", text))

    def _keep(self, found: re.Match[str]) -> str:
        place = len(self._kept)
        if place >= _MOST:
            return found[0]
        sign = chr((_FIRST_TEXT if found[0][0] == "'" else _FIRST_NAME) + place)
        self._kept[sign] = found[0]
        return sign

    def unmask(self, text: str) -> str:
        """Return ``text`` with what its placeholders stand for."""
        return _PRIVATE.sub(lambda found: self._kept.get(found[0], ""), text)

    def read(self, sign: str) -> str:
        """Return the name or text that ``sign`` is or stands for, without quotes."""
        kept = self._kept.get(sign, sign)
        return kept[1:-1].replace(kept[0] * 2, kept[0]) if sign in self._kept else kept

    def replace_each(self, pattern: str, new: str | Callable[[re.Match[str]], str | None]) -> Iterator[str]:
        """Yield the text with all matches replaced, then, if there are several, with each one of them."""
        matches = list(re.finditer(pattern, self.text, re.IGNORECASE))
        made = [(one, new(one) if callable(new) else one.expand(new)) for one in matches]
        known = [(one, text) for one, text in made if text is not None]
        if not known:
            return
        whole, at = [], 0
        for one, text in known:
            whole += [self.text[at : one.start()], text]
            at = one.end()
        yield self.unmask("".join(whole) + self.text[at:])
        for one, text in known if len(known) > 1 else ():
            yield self.unmask(self.text[: one.start()] + text + self.text[one.end() :])
