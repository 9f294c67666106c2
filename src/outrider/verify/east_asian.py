# ruff: noqa: RUF002 - look-alike characters are the subject of this file
r"""Removes Chinese words that models write around an answer inside a box: ``7个``, ``答案：4``, ``\text{7种}``.

Words after a value become its unit, and words before it, such as "the answer is", are removed. Words that change the
value stay: 7万 is 70,000, and 约7个 is about seven. Japanese and Korean nouns after a number are read as units as
well. The code is pure Python.
"""

from __future__ import annotations

import re

from outrider.texts import late_pattern

_SIGN = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_TEXT = r"\\(?:text(?:bf|rm|it|sf|tt|normal|up)?|mbox|hbox|emph)"
ANY = late_pattern(f"[{_SIGN}]")
_IN_TEXT = late_pattern(rf"{_TEXT}\s*\{{([^{{}}]*[{_SIGN}][^{{}}]*)\}}")
_AND = late_pattern(r"(?<=[0-9A-Za-z})])\s*(?:以及|或者|和|或|与|及)\s*(?=[-+0-9A-Za-z\\({])")
_LEADING = late_pattern(
    rf"[{_SIGN}\s,;]*?(?:(?:为|是|等于|共有|总共|一共|共|有|得|即|第|选|需要|需)|(?<=[{_SIGN}])\s*[:=])\s*[:=]?\s*"
    r"(?=[-+0-9A-Za-z\\({.])"
)
_BEHIND = late_pattern(rf"(.*[0-9A-Za-z}})\]!])\s*\(?([{_SIGN}]+)\)?[\s.,;]*", re.DOTALL)
_CHANGING = late_pattern(
    "[万亿兆千百十半倍打双不非负无没错少多余约超欠缺差亏几两成折未近前后]|次方|平方|立方|方根|阶乘|分之|以上|以下|以内|左右|进制|大于|小于"
    "|至少|至多|最多|最少|可能是|可能为|也许|大概|以外"
)
_MEASURES = "个個种種名位只隻条條本支辆块张棵组件道题页次枚颗间栋句株套对"
_UNITS = {
    "毫米": "mm",
    "厘米": "cm",
    "米": "m",
    "千米": "km",
    "公里": "km",
    "毫克": "mg",
    "克": "g",
    "千克": "kg",
    "公斤": "kg",
    "秒": "s",
    "秒钟": "s",
    "分钟": "min",
    "小时": "h",
    "天": "day",
    "日": "day",
    "周": "week",
    "星期": "week",
    "月": "month",
    "个月": "month",
    "年": "year",
    "岁": "year",
    "美元": "dollars",
    "美分": "cent",
    "毫升": "ml",
    "升": "l",
    "弧度": "rad",
    "摄氏度": "celsius",
    "华氏度": "fahrenheit",
}
_POWERS = {"平方": "2", "立方": "3"}


def plain_words(text: str) -> str:
    r"""Rewrite Chinese units as ``\text{…}``, and remove the words that introduce the value.

    >>> plain_words("答案是7厘米"), plain_words(r"\text{7种}"), plain_words("7万"), plain_words("正确")
    ('7\\text{ cm}', '7', '7万', '正确')
    """
    text = _AND.sub(", ", _IN_TEXT.sub(r"\1", text))
    if (leading := _LEADING.match(text)) and not _CHANGING.search(leading[0]):
        text = text[leading.end() :]
    if (behind := _BEHIND.fullmatch(text)) is None:
        return text
    quantity, word = behind[1].rstrip(), behind[2]
    if ANY.search(quantity):
        return text
    if word == "度":
        return rf"{quantity}^\circ"
    base, power = word, ""
    for name, exponent in _POWERS.items():
        if word.startswith(name) and word.removeprefix(name) in _UNITS:
            base, power = word.removeprefix(name), f"^{exponent}"
    if base in _UNITS:
        return rf"{quantity}\text{{ {_UNITS[base]}}}{power}"
    if _CHANGING.search(word):
        return text
    noun = word[1:] if word[0] in _MEASURES else word
    return rf"{quantity}\text{{ {noun}}}" if noun else quantity
