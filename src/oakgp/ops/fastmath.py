"""Branch-free exponential and sine that LLVM turns into vector instructions.

The C library's ``exp`` is a scalar call, so a loop around it does not vectorise. These are plain
polynomials after an exact range reduction; both are within 2 units in the last place.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

# No flag that lets the compiler reassociate: it would cancel the rounding constant below.
_EXACT = {"contract", "nsz"}
_LOG2E = 1.4426950408889634
_LN2_HIGH = 0.6931471803691238  # ln 2 split so that n * _LN2_HIGH is exact for |n| < 2^20
_LN2_LOW = 1.9082149292705877e-10
_ROUND = 6755399441055744.0  # 1.5 * 2^52: adding it leaves round(x) in the low mantissa bits
_EXP_FLOOR = -708.0  # exp(-708) = 3e-308, the smallest normal number


@intrinsic
def _as_int(typing_context: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), generate


@intrinsic
def _as_float(typing_context: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate


@njit(nogil=True, fastmath=_EXACT)
def exp_negative(x: float) -> float:
    """Return exp(x) for x <= 0 (below -708: the smallest normal number, in effect 0)."""
    x = max(x, _EXP_FLOOR)
    shifted = x * _LOG2E + _ROUND
    n = shifted - _ROUND
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    # Taylor series to r^12: |r| <= ln(2)/2, remainder 2e-16 of the value.
    p = 2.08767569878681e-09
    p = p * r + 2.505210838544172e-08
    p = p * r + 2.755731922398589e-07
    p = p * r + 2.7557319223985893e-06
    p = p * r + 2.48015873015873e-05
    p = p * r + 0.0001984126984126984
    p = p * r + 0.001388888888888889
    p = p * r + 0.008333333333333333
    p = p * r + 0.041666666666666664
    p = p * r + 0.16666666666666666
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    value: float = p * _as_float((_as_int(shifted) + 1023) << 52)
    return value


@njit(nogil=True, fastmath=_EXACT)
def sin_pi(x: float) -> float:
    """Return sin(pi x), any moderate x (|x| < 2^51)."""
    n = (x + _ROUND) - _ROUND
    r = x - n  # in [-1/2, 1/2]
    s = r * r
    p = 5.392664662608125e-10 * s - 2.2948428997269856e-08
    p = p * s + 7.952054001475508e-07
    p = p * s - 2.1915353447830204e-05
    p = p * s + 0.00046630280576761234
    p = p * s - 0.007370430945714348
    p = p * s + 0.08214588661112819
    p = p * s - 0.5992645293207919
    p = p * s + 2.550164039877345
    p = p * s - 5.16771278004997
    p = p * s + 3.141592653589793
    odd = _as_int(x + _ROUND) & 1
    value: float = r * p * (1.0 - 2.0 * odd)
    return value
