"""Public lists of values to copy from: names of months and weekdays, codes of countries and states."""

from __future__ import annotations

from siloquent.errors import UnknownName


def _split(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_MONTHS = _split("January February March April May June July August September October November December")
_DAYS = _split("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
CODE_LISTS: dict[str, tuple[str, ...]] = {
    "month": tuple(month[:3] for month in _MONTHS),
    "months": _MONTHS,
    "month-lower": tuple(month[:3].lower() for month in _MONTHS),
    "weekday": tuple(day[:3] for day in _DAYS),
    "weekdays": _DAYS,
    "weekday-lower": tuple(day[:3].lower() for day in _DAYS),
    "us-state": _split(
        "AL AK AZ AR CA CO CT DE DC FL GA HI ID IL IN IA KS KY LA ME MD MA MI MN MS MO MT NE NV NH NJ NM NY NC ND "
        "OH OK OR PA RI SC SD TN TX UT VT VA WA WV WI WY PR"
    ),
    "country": _split(
        "AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW "
        "BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI "
        "FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN "
        "IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME "
        "MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF "
        "PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV "
        "SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS YE "
        "YT ZA ZM ZW"
    ),
}
"""Each list under the name that follows ``@``."""


def find_code_list(name: str) -> tuple[str, ...]:
    """Return the list of that name.

    Raises:
        UnknownName: there is none.
    """
    if name not in CODE_LISTS:
        raise UnknownName(
            "list", name[:60], CODE_LISTS, fix="@FILE names a file of the workspace with one value a line"
        )
    return CODE_LISTS[name]
