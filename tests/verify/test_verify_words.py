# ruff: noqa: RUF001 - Chinese signs are what this file is about
"""Words around a value: what leads to it, what is counted, and what changes it; in English and in Chinese."""

from __future__ import annotations

import pytest

from outrider.record import Outcome
from outrider.verify.equality import compare

pytest.importorskip("math_verify")

SAME = r"""
30^\circ | 30^\circ\text{.}
7 | 7\text{.}
7 | 7\text{ }
7 | \text{The answer is }7
7 | \text{The answer is } 7.
7 | \text{Answer: }7
7 | The answer is 7
7 | The final answer is 7.
7 | \text{Total: }7
7 | \text{Total} = 7
7 | \text{Number of ways} = 7
7 | \text{There are }7
7 | \text{there are } 7 \text{ ways}
7 | There are 7 ways
\frac{1}{2} | \text{The probability is } \frac{1}{2}
x=3 | \text{The solution is } x=3
\text{yes} | \text{The answer is yes}
\text{Yes} | The answer is Yes
5\text{ m/s} | \text{speed} = 5\text{ m/s}
\sqrt{2} | \text{Length } = \sqrt{2}
-2,-2 | -2,-2
-2,-2 | -2, -2
7 | 7\text{ apples}
7 | 7\text{ ordered pairs}
7 | 7\text{ pairs}
7 | 7\text{ quarters}
7 | 7\text{ ways}
7 | 7\text{ solutions}
7 | 7\text{ integers}
7 | 7\text{ square units}
7 | 7\text{ positive integers}
7 | 7\text{ red balls}
7 | 7\text{ students in the class}
7 | 7\text{ people}
41.8^\circ\text{C} | 41.8
41.8 | 41.8^\circ\text{C}
41.8^\circ\text{C} | 41.8°C
41.8^\circ\text{C} | 41.8\text{ degrees Celsius}
30^\circ | 30\text{ degrees}
30^\circ | 30\text{ deg}
2\text{ rad} | 2
5\text{ mW} | 5\text{ milliwatts}
5\text{ MW} | 5\text{ megawatts}
5\text{ kW} | 5\text{ kilowatts}
5\text{ kW} | 5\text{ kW}
5\text{ cm} | 5\text{ CM}
5\text{ KG} | 5\text{ kg}
5\text{ m/s} | 5\text{ meters per second}
9.8\text{ m/s}^2 | 9.8\text{ m/s}^2
5\text{ J} | 5\text{ joules}
5\text{ Hz} | 5\text{ hertz}
5 \mathrm{~kPa} | 5\text{ kPa}
5 \mathrm{~mW} | 5\text{ mW}
7 | 7个
7 | 7元
7 | \text{7种}
4 | 答案：4
4 | 答案:4
4 | 答案是4
4 | 答案为4
4 | \text{答案：}4
4 | \text{答案是}4
4 | 因此答案为 $4$
7 | 7\text{个}
7 | 7 个
7 | 共7种
7 | 共有7种方法
7 | 7种方法
7 | 7人
\frac{1}{2} | \frac{1}{2}小时
\frac{1}{2} | 概率为\frac{1}{2}
7\text{ cm} | 7厘米
7\text{ m} | 7米
7元 | 7
7个 | 7
7个 | 7种
7 | 面积为7平方厘米
1,2 | 1和2
1,2 | 1或2
1,2 | 1、2
x=1 | x=1。
是 | 是
60^\circ | 60度
7 | ７
2\pi | 2π米
7 | x=7（个）
7 | 7（个）
3 | 3\text{ possible values}
3 | 3\text{ real roots}
3 | 3\text{ complex solutions}
3 | 3\text{ hours}
3 | 3\text{ days}
3 | 3 students
3 | 3\text{ men}
3 | 3\text{ distinct triangles}
3 | 3\text{ points of intersection}
3 | \text{Answer: } 3
3 | \text{The number of solutions is } 3
3 | \text{So the answer is } 3.
3 | \text{Therefore, the answer is } 3
3 | \text{Final answer: } 3
3 | \text{final answer} = 3
3 | \textbf{3}
3 | \text{3}
3 | \text{ 3 }
3 | \text{It is } 3
3 | \text{Minimum value is } 3
3 | \text{The maximum is } 3
3 | The minimum value is 3
3 | \text{John has } 3 \text{ apples}
3 | \text{She bought } 3 \text{ apples}
3\text{ m} | \text{Height: } 3 \text{ m}
\$3 | \text{Cost: } \$3
\frac34 | \text{Probability} = \frac{3}{4}
20^\circ\text{C} | 20^{\circ}\mathrm{C}
3 \text{ GHz} | 3\text{ gigahertz}
3\text{ kN} | 3\text{ kilonewtons}
3\text{ kΩ} | 3\text{ kΩ}
3\ \mathrm{m/s} | 3\text{ m/s}
3\mu\text{m} | 3\ \mu\text{m}
3 | 3天
3 | 3 天
3 | 3名学生
3 | 最大值为3
3 | 最大值是 $3$
3 | 最小值:3
3 | 因此，答案是3
3 | 所以答案为：3
3 | 故选3
3 | 3组
3 | 3块钱
3 | 一共3个
3 | 总共有3种可能
3 | \text{共 }3\text{ 个}
3 | $3$ 元
3 | \text{答：}3
\sqrt{3} | 面积是\sqrt{3}
\sqrt{3} | \sqrt{3}平方米
x=3 | 解为x=3
3\text{ km} | 3公里
3 | 3\text{ apples each}
3 | 3\text{ groups of students}
3 | 3\text{ boxes of pencils}
3 | 3\text{ basis vectors}
3 | 3\text{ non-negative integers}
3 | 3\text{ missing tiles}
3 | 3\text{ lost games}
"""

OTHER = r"""
7 | \text{The answer is not }7
7 | \text{The answer is at most }7
7 | \text{The answer is at least } 7
7 | \text{The answer is }8
7 | \text{The answer is more than }7
7 | \text{not }7
7 | \text{The answer is twice }7
\text{yes} | \text{The answer is no}
5\text{ m/s} | \text{speed} = 5\text{ km/h}
f\text{ is injective} | g\text{ is injective}
7 | 7\text{ pairs of socks}
7 | 7\text{ gross}
7 | 7\text{ score}
7 | 7\text{ dozen}
7 | 7\text{ doubled}
7 | 7\text{ halved}
7 | 7\text{ decades}
7 | 7 decades
7 | 7\text{ lakh}
7 | 7\text{ crore}
7 | 7\text{ short}
7 | 7\text{ off}
7 | 7\text{ too many}
7 | 7\text{ wrong}
7 | \text{half of }7
7 | \text{twice }7
7 | 7\text{ hundred}
7 | 7\text{ tripled}
7 | 7\text{ centuries}
7 | 7 dozens
7 | 7\text{-fold}
7 | 7\text{ tenfold}
7 | 7\text{ quadrillion}
7 | 7\text{ zillion}
7 | 7\text{ too few}
7 | 7\text{ people too many}
7 | 7\text{ missing}
7 | 7\text{ is wrong}
7 | 7\text{ incorrect}
7 | 7\text{ inverted}
7 | 7\text{ negated}
7 | 7\text{ years ago}
7 | 7\text{ in debt}
7 | 7\text{ below zero}
7 | 7\text{ minutes late}
7 | 7\text{ dollars short}
7 | 7\text{ sets of 3}
7 | 7\text{ lots of four}
7 | 7\text{ couples}
7 | 7\text{ quadrupled}
7 | 7\text{ approximately}
7 | 7\text{ at most}
7 | 7\text{ Dozen}
7 | 7 \text{ thousandfold}
7 | 7\text{ twenty-fifths}
41.8^\circ | 41.8^\circ\text{C}
41.8^\circ\text{C} | 41.8^\circ
41.8^\circ | 41.8^\circ C
41.8^\circ | 41.8°C
41.8^\circ | 41.8^\circ\mathrm{F}
41.8^\circ\text{C} | 41.8^\circ\text{F}
30^\circ | 30\text{ rad}
30\text{ rad} | 30^\circ
30\text{ degrees} | 30\text{ radians}
30 degrees | 30 rad
30° | 30 \mathrm{rad}
2\text{ rad} | 2\text{ deg}
5\text{ mW} | 5\text{ MW}
5\text{ MW} | 5\text{ mW}
5\text{ mW} | 5\text{ megawatts}
5\text{ W} | 5\text{ kW}
5\text{ mHz} | 5\text{ MHz}
5\text{ ms} | 5\text{ Ms}
5\text{ Pa} | 5\text{ kPa}
5\text{ Mg} | 5\text{ mg}
5\text{ N} | 5\text{ nm}
5\text{ J} | 5\text{ kJ}
5\text{ mA} | 5\text{ MA}
5\text{ mV} | 5\text{ MV}
5\text{ pF} | 5\text{ PF}
5\text{ mol} | 5\text{ Mol/s}
5\text{ eV} | 5\text{ keV}
5\text{ MeV} | 5\text{ meV}
5\text{ m/s} | 5\text{ m}
5\text{ N} | 5\text{ J}
5\text{ W} | 5\text{ J}
5 \mathrm{~mW} | 5 \mathrm{~MW}
7\text{ cm} | 7米
7\text{ m} | 7厘米
7米 | 7千米
7 | 7万
7 | 7百
7 | 7亿
7 | 7倍
7 | 7半
7 | 7个以上
7 | 约7个
7 | 不是7
7 | 答案不是7
7 | 至少7个
7 | 7分之一
7 | 8个
7 | 7成
7 | 7打
7 | 负7
7 | 7千
7 | 错误7
是 | 否
正确 | 错误
3 | 3\text{ pairs of shoes}
3 | 3\text{ dozen eggs}
3 | 3\text{ half-hours}
3 | 3\text{ scores}
3 | 3\text{ squared}
3 | 3 crore rupees
3 | 3\text{ is incorrect}
3 | 3\text{ fewer}
3 | 3\text{ degrees below}
3 | 3\text{ minutes early}
3 | 3\text{ times as many}
3 | 3\text{ hundredths}
3 | 3\text{ off by one}
3 | 3\text{ million people}
3 | 3\text{ trillions}
3 | 3\text{ threefold}
3 | 3\text{ couples}
3 | 3\text{ minus one}
3 | 3\text{ reduced}
3 | 3\text{ increased by } 1
3 | 3\text{ nonzero}
3 | 3\text{k}
3 | 3\text{ thou}
3 | 3\text{ lacs}
3 | 3\text{ doz}
3 | 3\text{ doz.}
3 | 3\text{ twos}
3 | 3\text{ baker's dozen}
3 | \text{not } 3
3 | \text{about } 3
3 | \text{less than } 3
3 | \text{minus } 3
3 | \text{double } 3
3 | \text{wrong: } 3
3\text{ m} | \text{Height: } 3 \text{ km}
3 | \text{The answer is } 4
3 | \text{The answer isn't } 3
3 | \text{The answer is approximately } 3
3 | \text{The answer is never } 3
20^\circ\text{C} | 20^\circ
20^\circ | 20^\circ\text{F}
45^\circ | 45\text{ radians}
1 \text{ rad} | 1^\circ
3 \text{ mV} | 3 \text{ MV}
3\text{ MΩ} | 3\text{ mΩ}
3 \text{ mm} | 3 \text{ Mm}
3 \text{ GHz} | 3\text{ MHz}
3\ \mathrm{m/s} | 3\text{ km/s}
3\text{ km} | 3米
3 | 3万元
3 | 大于3
3 | 小于3个
3 | 3的倍数
3 | 3分之2
3 | 第3组不对
3 | 4个
3 | 3和4
3 | 不等于3
3 | 3左右
3 | 3十
3男 | 3女
3个男孩 | 3个女孩
3 | 非3
3 | 3次方
3 | 3\text{ basis points}
3 | 3\text{ ppm}
3 | 3\text{ reams}
3 | 3\text{ shy}
3 | 3\text{ tiles missing}
"""


def pairs(table: str) -> list[tuple[str, str]]:
    return [tuple(part.strip() for part in line.split(" | ", 1)) for line in table.strip().splitlines()]


@pytest.mark.parametrize(("gold", "answer"), pairs(SAME))
def test_words_that_do_not_change_the_value(gold, answer):
    assert compare(gold, answer) == (Outcome.CORRECT, "")


@pytest.mark.parametrize(("gold", "answer"), pairs(OTHER))
def test_words_and_units_that_change_the_value(gold, answer):
    assert compare(gold, answer)[0] is not Outcome.CORRECT
