"""Lists words that change the meaning of a number beside them, such as "log", "January" and "thousand"."""

from __future__ import annotations

_FUNCTIONS = "sin cos tan cot csc arcsin arccos arctan log ln lg exp sqrt gcd lcm mod modulo"
_MONTHS = """
    January February March April May June July August September October November December
    Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec
"""
_PARTS = """
    half halves third thirds fourth fourths fifth fifths sixth sixths seventh sevenths eighth
    eighths ninth ninths tenth tenths hundredth hundredths thousandth thousandths
"""
_JOINING = """
    and|or|nor|to|by|over|through|thru|plus|minus|times|mod|modulo|versus|vs|of|divided by|multiplied by|out of
    |to the power of|to the power|is to|or maybe|and then
"""
_UNITS = """
    mph kph mm cm dm km in ft yd mi mg kg lbs lb oz ms secs sec s mins min hrs hr h ml mL dL cl L l kWh kW Hz GB MB Mb
    Gb kb pts pt px am pm cc rpm m g W V A J N C F
"""
_CURRENCIES = "USD EUR GBP INR RS RM CAD AUD US HK NT CNY JPY"
_NEGATING = "not never no than least most between neither"
_LEADING = """
    is are was equals equal be answer result total sum value get gives approximately about approx around exactly
    negative minus
"""
_COMPOUND = """
    year years month months week weeks day days hour hours hr hrs h minute minutes min mins m second seconds sec secs s
    mile miles mi yard yards yd foot feet ft inch inches in
    kilometer kilometers km meter meters m centimeter centimeters cm
    pound pounds lb lbs ounce ounces oz
    kilogram kilograms kg gram grams g
    dollar dollars euro euros cent cents pence penny pennies
    gallon gallons quart quarts pint pints cup cups
"""

FUNCTIONS = frozenset(_FUNCTIONS.split())
"""Names of functions. A number after such a word is the function's argument."""

MONTHS = frozenset(_MONTHS.split())
"""Names of months. A number beside such a word is a day or a year."""

SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
"""Words after a number, with the power of ten by which each word multiplies the number."""

NO_LONGER = frozenset(["factorial", "squared", "cubed"])
PARTS = frozenset(_PARTS.split())
"""Words after a number, such as "thirds", that make the number a part of the value unless a noun follows."""

JOINING = frozenset(words.strip() for words in _JOINING.split("|"))
"""Words between two numbers that make the numbers a list, a range, a ratio or an expression to compute."""

ORDINALS = frozenset(["st", "nd", "rd", "th", "rds", "ths"])
UNITS = tuple(_UNITS.split())
"""Short words that are units, not factors, if they follow digits without a space. Longer words are always units in this
position."""

CURRENCIES = frozenset(_CURRENCIES.split())
"""Words for currencies, which may be directly before digits."""

NEGATING = frozenset(_NEGATING.split())
"""Words before a number by which the sentence denies that the answer is this number."""

LEADING = frozenset((_LEADING + _CURRENCIES.lower()).split())
"""Words that may come directly before a number if the text states only this number."""


def one_quantity(first: str, second: str) -> bool:
    """Return whether two units form one quantity with the larger unit first, as in 2 hours 30 minutes.

    >>> one_quantity("hours", "minutes"), one_quantity("minutes", "hours"), one_quantity("hours", "inches")
    (True, False, False)
    """
    for line in _COMPOUND.strip().splitlines():
        known = line.split()
        if first in known and second in known:
            return known.index(first) < known.index(second)
    return False


def east_asian_scale(behind: str, before: str) -> int | None:
    """Return the factor by which Chinese text after a number multiplies the number; None if the number is only a part
    of a longer expression.

    Such parts are, for example, the 30 of 8点30分, the 1 of 3分之1 and the 10 of 2的10次方.

    >>> east_asian_scale("万元", ""), east_asian_scale("个", "共"), east_asian_scale("分", "点")
    (10000, 1, None)
    """
    if behind[:1] in _CHANGING or behind[:2] == "次方" or before in _LARGER or before.endswith("分之"):
        return None
    scale = 1
    for at, sign in enumerate(behind):
        if sign not in _SCALES or (sign == "千" and behind[at + 1 : at + 2] in _OF_KILO):
            break
        scale *= 10 ** _SCALES[sign]
    return scale


_SCALES = {"百": 2, "千": 3, "万": 4, "萬": 4, "亿": 8, "億": 8}
_OF_KILO = tuple("克米瓦帕焦卡赫伏")
_LARGER_UNITS = "年 月 日 点 时 小时 分 分钟 元 块 角 米 公里 千米 斤 公斤 千克 度"
_LARGER = frozenset(_LARGER_UNITS.split())
_CHANGING = frozenset("多余几半成折")
