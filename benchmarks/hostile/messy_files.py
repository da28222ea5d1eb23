"""Files as people have them: one table of sixty rows in every common form, and files that must be refused.

Each is made by code. A file that can be read has the settings that say how; each refusal has a reason, and where a
setting mends it, the settings that its fix names.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

WARDS = ("Innere", "Chirurgie", "Gynäkologie", "Süd, links")
NAMES = ("patient", "ward", "price", "age", "born", "seen", "ill")
DECLARED = """\
format = 1
attribute = [
  {{ name = "patient", type = "id" }},
  {{ name = "ward", type = "category", values = ["Innere", "Chirurgie", "Gynäkologie", "Süd, links"], null = "cell" }},
  {{ name = "price", type = "real", lo = 0, hi = 5000, grid = 0.01, outside = "drop", null = "cell" }},
  {{ name = "age", type = "integer", lo = 0, hi = 120, outside = "drop", null = "cell" }},
  {{ name = "born", type = "date", lo = 1930-01-01, hi = 2029-12-31, outside = "drop", null = "cell" }},
  {{ name = "seen", type = "datetime", lo = 2024-01-01, hi = 2024-12-31, grid = "hour", outside="drop", null="cell"}},
  {{ name = "ill", type = "boolean", null = "cell" }},
]
{reading}
[table]
name = "visits"
source = "{source}"
adjacency = "add-remove"
unit = {{ kind = "row" }}
[budget]
accountant = "pure"
epsilon = "100000"
"""
Record = dict[str, Any]


def records() -> list[Record]:
    """The rows; each column has a missing value."""
    found: list[Record] = []
    for i in range(60):
        row: Record = {
            "patient": f"p{i:02}",
            "ward": WARDS[i % 4],
            "price": Decimal(i * i * 137 % 500_000).scaleb(-2),
            "age": i * 2,
            "born": date(1931 + i, i % 12 + 1, i % 28 + 1),
            "seen": datetime(2024, i % 12 + 1, i % 28 + 1, i % 24, 30),
            "ill": i % 3 == 0,
        }
        if i % 9 == 8:
            row[NAMES[1 + i // 9]] = None
        found.append(row)
    return found


@dataclass(frozen=True, slots=True)
class Form:
    """How the table is written as text; the defaults are those of every source."""

    delimiter: str = ","
    quote: str = '"'
    quoting: Any = csv.QUOTE_MINIMAL
    end: str = "\n"
    encoding: str = "utf-8"
    names: tuple[str, ...] | None = NAMES
    number: Callable[[Decimal], str] = str
    born: str = "%Y-%m-%d"
    seen: str = "%Y-%m-%d %H:%M"
    missing: str = ""
    true: str = "true"
    false: str = "false"
    above: str = ""
    """Text before the header line."""

    def write(self, rows: list[Record] | None = None) -> bytes:
        """The file's bytes."""
        file = io.StringIO()
        writer = csv.writer(file, delimiter=self.delimiter, quotechar=self.quote, quoting=self.quoting,
                            lineterminator=self.end)  # fmt: skip
        file.write(self.above)
        if self.names is not None:
            writer.writerow(self.names)
        for row in records() if rows is None else rows:
            writer.writerow([self.format(name, row) for name in NAMES])
        return file.getvalue().encode(self.encoding)

    def format(self, name: str, row: Record) -> str:
        """One value as text."""
        value = row[name]
        if value is None:
            return self.missing
        if name == "price":
            return self.number(value)
        if name in ("born", "seen"):
            return str(value.strftime(self.born if name == "born" else self.seen))
        return (self.true if value else self.false) if name == "ill" else str(value)


Write = Callable[[Path], object]


@dataclass(frozen=True, slots=True)
class MessyFile:
    """A file, how it is declared, and what becomes of it.

    Attributes:
        write: Writes it into the folder ``data`` of a workspace.
        reading: The lines under ``[reading]``; after a refusal or a finding, those that mend it are ``mended``.
        refused: A part of the reason why it is refused when it is opened.
        found: A part of what ``check`` says of it.
        fix: A part of the fix of either.
    """

    name: str
    write: Write
    source: str = "csv:data/visits.csv"
    reading: str = ""
    refused: str = ""
    found: str = ""
    fix: str = ""
    mended: str | None = None

    def declare(self, reading: str | None = None) -> str:
        """The table file."""
        lines = self.reading if reading is None else reading
        return DECLARED.format(source=self.source, reading=f"[reading]\n{lines}" if lines else "")


def _put(data: bytes | Form, name: str = "visits.csv") -> Write:
    return lambda folder: (folder / name).write_bytes(data if isinstance(data, bytes) else data.write())


def _comma(thousands: str = "") -> Callable[[Decimal], str]:
    return lambda value: f"{value:,}".replace(",", "\0").replace(".", ",").replace("\0", thousands)


def _point(thousands: str) -> Callable[[Decimal], str]:
    return lambda value: f"{value:,}".replace(",", thousands)


def _zip(members: Mapping[str, bytes], *, packing: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", packing) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def messy_files() -> Iterator[MessyFile]:
    """All of them."""
    yield from _encodings()
    yield from _layouts()
    yield from _values()
    yield from _packed()
    yield from _parts()
    yield from _typed()
    yield from _refused()
    yield from _found_by_check()


def _encodings() -> Iterator[MessyFile]:
    yield MessyFile("plain", _put(Form()))
    yield MessyFile("byte order mark", _put(b"\xef\xbb\xbf" + Form().write()))
    for name in ("latin-1", "cp1252", "iso-8859-15", "cp850", "mac-roman", "cp1250", "utf-16"):
        yield MessyFile(name, _put(Form(encoding=name)), reading=f'encoding = "{name}"')
    for name in ("utf-16-le", "utf-16-be"):
        yield MessyFile(f"{name} without a mark", _put(Form(encoding=name)), reading=f'encoding = "{name}"')
        mark = "\ufeff".encode(name)
        yield MessyFile(f"{name} with a mark", _put(mark + Form(encoding=name).write()), reading='encoding = "utf-16"')


def _layouts() -> Iterator[MessyFile]:
    for sign in (";", "\t", "|"):
        yield MessyFile(f"delimiter {sign!r}", _put(Form(delimiter=sign)))
    for sign in ("^", "~", ":"):
        form = Form(delimiter=sign, seen="%Y-%m-%d %H:%M" if sign != ":" else "%Y-%m-%d %H.%M")
        more = '\ndatetime_format = "%Y-%m-%d %H.%M"' if sign == ":" else ""
        yield MessyFile(f"delimiter {sign!r}", _put(form), reading=f'delimiter = "{sign}"{more}')
    yield MessyFile("all quoted", _put(Form(quoting=csv.QUOTE_ALL)))
    yield MessyFile("single quotes", _put(Form(quote="'")), reading='quote = "\'"')
    yield MessyFile("no quotes", _put(Form(delimiter="\t", quoting=csv.QUOTE_NONE)), reading='quote = ""')
    yield MessyFile("CR LF", _put(Form(end="\r\n")))
    yield MessyFile("no last line end", _put(Form().write().rstrip(b"\n")))
    yield MessyFile("title", _put(Form(above="Visits; 2024\n")), reading="skip = 1")
    yield MessyFile("three titles", _put(Form(above='"Visits\n\nof 2024\n')), reading="skip = 3")
    yield MessyFile("sep= line", _put(Form(delimiter=";", above="sep=;\n")), reading="skip = 1")
    listed = ", ".join(f'"{name}"' for name in NAMES)
    yield MessyFile("no header line", _put(Form(names=None)), reading=f"names = [{listed}]")
    yield MessyFile("no header, title", _put(Form(names=None, above="x\n")), reading=f"skip = 1\nnames = [{listed}]")
    yield MessyFile("no header, utf-16", _put(Form(names=None, encoding="utf-16-le")),
                    reading=f'encoding = "utf-16-le"\nnames = [{listed}]')  # fmt: skip
    yield MessyFile("names in capitals", _put(Form(names=tuple(name.upper() for name in NAMES))))
    yield MessyFile("names with blanks", _put(Form(names=tuple(f" {name} " for name in NAMES))))


def _values() -> Iterator[MessyFile]:
    for name, number, reading in (
        ("decimal comma", _comma(), 'decimal = ","'),
        ("decimal comma, points", _comma("."), 'decimal = ","\nthousands = "."'),
        ("decimal comma, blanks", _comma(" "), 'decimal = ","\nthousands = " "'),
        ("decimal comma, narrow blanks", _comma("\u202f"), 'decimal = ","\nthousands = " "'),
        ("thousands commas", _point(","), 'thousands = ","'),
        ("apostrophes", _point("\u2019"), 'thousands = "\'"'),
    ):
        yield MessyFile(name, _put(Form(number=number)), reading=reading)
    yield MessyFile("exponents", _put(Form(number=lambda value: f"{value * 100:f}e-2")))
    for born in ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y%m%d", "%d-%b-%Y", "%d%b%Y", "%Y/%m/%d", "%B %d, %Y"):
        yield MessyFile(f"dates {born}", _put(Form(born=born)), reading=f'date_format = "{born}"')
    for seen in ("%d.%m.%Y %H:%M", "%m/%d/%Y %I:%M %p", "%d.%m.%y %H.%M", "%Y%m%d %H%M"):
        yield MessyFile(f"moments {seen}", _put(Form(seen=seen)), reading=f'datetime_format = "{seen}"')
    yield MessyFile("moments with T", _put(Form(seen="%Y-%m-%dT%H:%M:%SZ")))
    yield MessyFile("moments of a zone", _put(_zoned), reading='time_zone = "Europe/Berlin"')
    yield MessyFile("a format for one column", _put(Form(born="%d.%m.%Y", seen="%d/%m/%Y %H:%M")),
                    reading='datetime_format = "%d/%m/%Y %H:%M"\n[reading.columns.born]\ndate_format = "%d.%m.%Y"',
                    )  # fmt: skip
    for word in ("NA", "n/a", "-", ".", "k. A.", "-9"):
        yield MessyFile(f"missing {word}", _put(Form(missing=word)), reading=f'missing = ["{word}"]')
    for true, false in (("ja", "nein"), ("WAHR", "FALSCH"), ("x", "-"), ("oui", "non")):
        words = f'true = ["{true.lower()}"]\nfalse = ["{false}"]'
        yield MessyFile(f"{true} and {false}", _put(Form(true=true, false=false)), reading=words)
    german = Form(";", encoding="cp1252", number=_comma("."), born="%d.%m.%Y", seen="%d.%m.%Y %H:%M", missing="-",
                  true="ja", false="nein", end="\r\n", above="Fälle\r\n")  # fmt: skip
    yield MessyFile("a German spreadsheet's export", _put(german), reading=GERMAN)


GERMAN = """\
encoding = "cp1252"
skip = 1
decimal = ","
thousands = "."
date_format = "%d.%m.%Y"
datetime_format = "%d.%m.%Y %H:%M"
missing = ["-"]
true = ["ja"]
false = ["nein"]"""


class _Zoned(Form):
    """Moments written in UTC with an offset, meant as local times of Berlin."""

    def format(self, name: str, row: Record) -> str:
        from zoneinfo import ZoneInfo

        if name != "seen" or row[name] is None:
            return Form.format(self, name, row)
        local = row[name].replace(tzinfo=ZoneInfo("Europe/Berlin"))
        return str(local.astimezone(ZoneInfo("Asia/Kolkata")).isoformat(" "))


_zoned = _Zoned()


def _packed() -> Iterator[MessyFile]:
    plain = Form().write()
    yield MessyFile("gzip", _put(gzip.compress(plain), "visits.csv.gz"), source="csv:data/visits.csv.gz")
    yield MessyFile("gzip without its ending", _put(gzip.compress(plain)))
    packed = "csv:data/visits.zip"
    yield MessyFile("zip", _put(_zip({"visits.csv": plain}), "visits.zip"), source=packed)
    mac = {"visits.csv": plain, "__MACOSX/._visits.csv": b"x", ".DS_Store": b"y"}
    yield MessyFile("zip of a Mac", _put(_zip(mac), "visits.zip"), source=packed)
    two = {"in/visits.csv": plain, "read me.txt": b"hello"}
    yield MessyFile("zip with two members", _put(_zip(two), "visits.zip"), source=packed,
                    reading='member = "in/visits.csv"')  # fmt: skip
    yield MessyFile("member by pattern", _put(_zip(two), "visits.zip"), source=packed, reading='member = "*.csv"')
    wide = {"v.csv": Form(encoding="utf-16").write()}
    yield MessyFile("stored zip, utf-16", _put(_zip(wide, packing=0), "visits.zip"), source=packed,
                    reading='encoding = "utf-16"')  # fmt: skip


def _parts() -> Iterator[MessyFile]:
    def split(folder: Path, ending: str = ".csv", *, turn: bool = False, empty: bool = False) -> None:
        (folder / "parts").mkdir()
        rows = records()
        for i in range(3):
            data = Form().write(rows[20 * i : 20 * i + 20])
            if turn and i == 1:
                table = list(csv.reader(data.decode().splitlines()))
                out = io.StringIO()
                csv.writer(out).writerows([row[::-1] for row in table])
                data = out.getvalue().encode()
            (folder / "parts" / f"part-{i}{ending}").write_bytes(gzip.compress(data) if "gz" in ending else data)
        if empty:
            (folder / "parts" / "part-9.csv").write_bytes(b"")
        (folder / "parts" / "_SUCCESS").write_bytes(b"")

    yield MessyFile("folder", split, source="csv:data/parts")
    yield MessyFile("folder with a stroke", split, source="csv:data/parts/")
    yield MessyFile("pattern", split, source="csv:data/parts/part-*.csv")
    yield MessyFile("gzipped parts", lambda folder: split(folder, ".csv.gz"), source="csv:data/parts")
    yield MessyFile("parts in other orders", lambda folder: split(folder, turn=True), source="csv:data/parts")
    yield MessyFile("an empty part", lambda folder: split(folder, empty=True), source="csv:data/parts")
    yield MessyFile("Parquet parts", lambda folder: parquet(folder, parts=3), source="parquet:data/parts")
    yield MessyFile(
        "pattern of Parquet", lambda folder: parquet(folder, parts=3), source="parquet:data/parts/*.parquet"
    )


def arrow_table() -> Any:
    """The table as Arrow, with types."""
    import pyarrow as pa

    kinds = {"price": pa.decimal128(9, 2), "age": pa.int16(), "born": pa.date32(), "seen": pa.timestamp("ms")}
    rows = records()
    return pa.table({name: pa.array([row[name] for row in rows], kinds.get(name)) for name in NAMES})


def parquet(folder: Path, *, parts: int = 1, change: Callable[[Any], Any] = lambda table: table) -> None:
    """Write the table as Parquet."""
    import pyarrow.parquet as pq

    table = change(arrow_table())
    if parts == 1:
        pq.write_table(table, folder / "visits.parquet")
        return
    (folder / "parts").mkdir()
    step = -(-table.num_rows // parts)
    for i in range(parts):
        pq.write_table(table.slice(i * step, step), folder / "parts" / f"{i}.parquet")


def _set(name: str, build: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda table: table.set_column(table.column_names.index(name), name, build(table.column(name)))


def _typed() -> Iterator[MessyFile]:
    import pyarrow as pa
    import pyarrow.compute as pc

    source = "parquet:data/visits.parquet"
    yield MessyFile("Parquet", parquet, source=source)
    texts = _set("price", lambda column: pc.replace_substring(column.cast(pa.string()), ".", ","))
    yield MessyFile("Parquet with texts", lambda folder: parquet(folder, change=texts), source=source,
                    reading='decimal = ","')  # fmt: skip
    nines = _set("age", lambda column: pc.fill_null(column.cast(pa.int64()), -9))
    yield MessyFile("Parquet with -9", lambda folder: parquet(folder, change=nines), source=source,
                    reading='[reading.columns.age]\nmissing = ["-9"]')  # fmt: skip
    local = _set("seen", lambda column: pc.assume_timezone(column.cast(pa.timestamp("us")), "Europe/Berlin"))
    yield MessyFile("Parquet with a zone", lambda folder: parquet(folder, change=local), source=source,
                    reading='time_zone = "Europe/Berlin"')  # fmt: skip

    def database(folder: Path) -> None:
        import duckdb

        table = arrow_table()
        with duckdb.connect(str(folder / "visits.duckdb")) as connection:
            connection.register("given", table)
            connection.execute("CREATE TABLE visits AS SELECT * FROM given")

    yield MessyFile("DuckDB", database, source="duckdb:data/visits.duckdb#visits")


def _refused() -> Iterator[MessyFile]:
    plain = Form().write()
    packed = "csv:data/visits.zip"
    umlaut = Form(encoding="cp1252", names=(*NAMES[:6], "ill")).write().replace(b"ill\n", b"ill,gr\xf6\xdfe\n", 1)
    yield MessyFile("utf-16 not declared", _put(Form(encoding="utf-16")), refused="is UTF-16",
                    fix='encoding = "utf-16"', mended='encoding = "utf-16"')  # fmt: skip
    yield MessyFile("utf-16-le not declared", _put(Form(encoding="utf-16-le")), refused="is UTF-16",
                    fix='encoding = "utf-16-le"', mended='encoding = "utf-16-le"')  # fmt: skip
    yield MessyFile("utf-16 without a mark", _put(Form(encoding="utf-16-le")), reading='encoding = "utf-16"',
                    refused="byte order mark", fix='encoding = "utf-16-le"', mended='encoding = "utf-16-le"',
                    )  # fmt: skip
    yield MessyFile("cp1252 header", _put(umlaut), refused="is not UTF-8 in its header line",
                    fix='encoding = "cp1252"')  # fmt: skip
    yield MessyFile("CR only", _put(Form(end="\r")), refused="ends its lines with only CR", fix="LF")
    yield MessyFile("sep= line not declared", _put(Form(delimiter=";", above="sep=;\n")), refused="sep= line",
                    fix="skip = 1", mended="skip = 1")  # fmt: skip
    yield MessyFile("title not declared", _put(Form(above="Visits\n")), refused="does not name", fix="skip = 1",
                    mended="skip = 1")  # fmt: skip
    yield MessyFile("no header", _put(Form(names=None)), refused="does not name", fix="names = [")
    yield MessyFile("nothing", _put(b""), refused="has no header line", fix="header line")
    yield MessyFile("two names alike", _put(b"patient,ward,WARD\n"), refused="the same name", fix="header line")
    yield MessyFile("bzip2", _put(bz2.compress(plain)), refused="bzip2", fix="gzip")
    yield MessyFile("xz", _put(lzma.compress(plain)), refused="xz", fix="gzip")
    yield MessyFile("old workbook", _put(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(99)), refused=".xls", fix="CSV")
    book = _zip({"[Content_Types].xml": b"<x/>", "xl/workbook.xml": b"<x/>"})
    yield MessyFile("workbook", _put(book), refused="is a workbook", fix="CSV")
    yield MessyFile("PDF", _put(b"%PDF-1.7\n"), refused="PDF", fix="CSV")
    yield MessyFile("Parquet as CSV", parquet, source="csv:data/visits.parquet", refused="is Parquet",
                    fix='source = "parquet:')  # fmt: skip
    yield MessyFile("gzip cut", _put(gzip.compress(plain)[:-20]), refused="cannot be unpacked", fix="gzip")
    two = {"a.csv": plain, "b.csv": plain}
    yield MessyFile("zip with two", _put(_zip(two), "visits.zip"), source=packed, refused="has 2 members",
                    fix='member = "a.csv"', mended='member = "a.csv"')  # fmt: skip
    yield MessyFile("no such member", _put(_zip(two), "visits.zip"), source=packed, reading='member = "c.csv"',
                    refused="has 0 members named", fix='member = "a.csv"', mended='member = "a.csv"')  # fmt: skip
    yield MessyFile("member of no zip", _put(plain), reading='member = "a.csv"', refused="is not a zip file",
                    fix="remove member", mended="")  # fmt: skip
    yield MessyFile("zip in zip", _put(_zip({"a.zip": _zip(two)}), "visits.zip"), source=packed,
                    refused="another packed file", fix="unpack")  # fmt: skip
    yield MessyFile("zip cut", _put(_zip(two)[:-30], "visits.zip"), source=packed, refused="not a valid zip", fix="CSV")
    yield MessyFile("zip by lzma", _put(_zip({"a.csv": plain}, packing=zipfile.ZIP_LZMA), "visits.zip"), source=packed,
                    refused="packed in a way", fix="pack")  # fmt: skip
    yield MessyFile("zip bomb", _put(_claim(_zip({"a.csv": plain}), 2**31), "visits.zip"), source=packed,
                    refused="unpacks to more than", fix="unpack")  # fmt: skip
    yield MessyFile("zip that claims less", _put(_claim(_zip({"a.csv": plain}), 100), "visits.zip"), source=packed,
                    refused="cannot be unpacked", fix="pack")  # fmt: skip
    yield MessyFile("unknown encoding", _put(plain), reading='encoding = "shift_jis"', refused="not an encoding",
                    fix="iconv")  # fmt: skip
    yield MessyFile("wide delimiter", _put(plain), reading='delimiter = "||"', refused="one ASCII", fix="delimiter")
    yield MessyFile("bad format", _put(plain), reading='date_format = "%d.%m"', refused="needs a year", fix="%Y")
    yield MessyFile("one sign for two", _put(plain), reading='thousands = "."', refused="thousands must be", fix='","')
    yield MessyFile("no such zone", _put(plain), reading='time_zone = "Europe/Bonn"', refused="not a time zone",
                    fix="Europe/Berlin")  # fmt: skip
    yield MessyFile("titles of Parquet", parquet, source="parquet:data/visits.parquet", reading="skip = 1",
                    refused="skip does not belong", fix="remove skip", mended="")  # fmt: skip
    yield MessyFile("unknown key", _put(plain), reading='encodng = "cp1252"', refused="Unknown key 'encodng'",
                    mended='encoding = "utf-8"')  # fmt: skip
    yield MessyFile("a column that is not declared", _put(plain), reading='[reading.columns.cost]\ndecimal = ","',
                    refused="not a declared attribute", fix="remove", mended="")  # fmt: skip

    def differ(folder: Path) -> None:
        (folder / "parts").mkdir()
        (folder / "parts" / "a.csv").write_bytes(plain)
        (folder / "parts" / "b.csv").write_bytes(plain.replace(b"ill\n", b"ill,more\n", 1))

    yield MessyFile("parts that differ", differ, source="csv:data/parts", refused="other columns", fix="header")
    yield MessyFile("empty folder", lambda folder: (folder / "parts").mkdir(), source="csv:data/parts",
                    refused="does not name any files", fix="parts")  # fmt: skip

    def lists(folder: Path) -> None:
        import pyarrow as pa

        parquet(folder, change=_set("patient", lambda column: pa.array([[text] for text in column.to_pylist()])))

    yield MessyFile("an id of lists", lists, source="parquet:data/visits.parquet", refused="lists", fix="one value")


def _claim(data: bytes, size: int) -> bytes:
    """A zip file of one member whose directory claims another unpacked size."""
    at = data.rindex(b"PK\x01\x02")
    return data[: at + 24] + size.to_bytes(4, "little") + data[at + 28 :]


def _found_by_check() -> Iterator[MessyFile]:
    yield MessyFile("decimal commas not declared", _put(Form(number=_comma())), found="could be read as a number",
                    fix='decimal = ","', mended='decimal = ","')  # fmt: skip
    points = 'decimal = ","\nthousands = "."'
    yield MessyFile("German numbers not declared", _put(Form(number=_comma("."))), found="use decimal commas",
                    fix='thousands = "."', mended=points)  # fmt: skip
    for born in ("%d.%m.%Y", "%d/%m/%Y", "%d-%b-%Y"):
        yield MessyFile(f"{born} not declared", _put(Form(born=born)), found="could be read as a date",
                        fix=f'date_format = "{born}"', mended=f'date_format = "{born}"')  # fmt: skip

    moments = 'datetime_format = "%d.%m.%Y %H:%M"'
    yield MessyFile("moments not declared", _put(Form(seen="%d.%m.%Y %H:%M")), found="could be read as a moment",
                    fix=moments, mended=moments)  # fmt: skip
    words = 'true = ["ja"]\nfalse = ["nein"]'
    yield MessyFile("ja and nein not declared", _put(Form(true="ja", false="nein")), found="read as true or false",
                    fix='true = ["ja"]', mended=words)  # fmt: skip
    yield MessyFile("NA not declared", _put(Form(missing="NA")), found="NA mean", fix='missing = ["NA"]',
                    mended='missing = ["NA"]')  # fmt: skip
    yield MessyFile("cp1252 not declared", _put(Form(encoding="cp1252")), found="not in the declared encoding",
                    fix='encoding = "cp1252"', mended='encoding = "cp1252"')  # fmt: skip
