"""Signatures of ``numba.cuda.libdevice`` and ``numba.cuda.fp16``, and names of the vector types.

Types are NumPy's type characters: ``e`` float16, ``f`` float32, ``d`` float64, ``?`` bool, ``b h i q`` signed and
``B H I Q`` unsigned integers of 8, 16, 32 and 64 bits. Unsigned arguments and results of libdevice have signed types of
the same width, as in numba.cuda.
"""

from __future__ import annotations

from typing import NamedTuple


class Types(NamedTuple):
    """Type characters of a function's results, of which several are a tuple, and of its arguments."""

    results: str
    arguments: str


def name_and_rounding(name: str) -> tuple[str, str]:
    """Return the name of a function without underscores around it and without its rounding mode, and the mode.

    The mode is ``rn``, ``rd``, ``ru`` or ``rz``; ``rn`` if the name has none, as that of ``__hadd``.
    """
    name = name.strip("_")
    plain, _, mode = name.rpartition("_")
    return (plain, mode) if mode in ("rn", "rd", "ru", "rz") else (name, "rn")


def _table(text: str) -> dict[str, Types]:
    """Return the signatures by name, given ``results arguments: names`` for each signature."""
    table: dict[str, Types] = {}
    signature = Types("", "")
    words = text.split()
    for index, word in enumerate(words):
        if word.endswith(":"):
            signature = Types(words[index - 1], word[:-1])
        elif not words[index + 1 : index + 2] or not words[index + 1].endswith(":"):
            table[word] = signature
    return table


_LIBDEVICE = _table(
    """
    d d: acos acosh asin asinh atan atanh cbrt ceil cos cosh cospi drcp_rd drcp_rn drcp_ru drcp_rz dsqrt_rd
        dsqrt_rn dsqrt_ru dsqrt_rz erf erfc erfcinv erfcx erfinv exp exp10 exp2 expm1 fabs floor j0 j1 lgamma
        log log10 log1p log2 logb nearbyint normcdf normcdfinv rcbrt rint round rsqrt sin sinh sinpi sqrt tan
        tanh tgamma trunc y0 y1
    d i: int2double_rn uint2double_rn
    d q: ll2double_rd ll2double_rn ll2double_ru ll2double_rz longlong_as_double ull2double_rd ull2double_rn
        ull2double_ru ull2double_rz
    dd d: modf sincos sincospi
    di d: frexp
    f d: double2float_rd double2float_rn double2float_ru double2float_rz
    f f: acosf acoshf asinf asinhf atanf atanhf cbrtf ceilf cosf coshf cospif erfcf erfcinvf erfcxf erff erfinvf
        exp10f exp2f expf expm1f fabsf fast_cosf fast_exp10f fast_expf fast_log10f fast_log2f fast_logf
        fast_sinf fast_tanf floorf frcp_rd frcp_rn frcp_ru frcp_rz frsqrt_rn fsqrt_rd fsqrt_rn fsqrt_ru fsqrt_rz
        j0f j1f lgammaf log10f log1pf log2f logbf logf nearbyintf normcdff normcdfinvf rcbrtf rintf roundf
        rsqrtf saturatef sinf sinhf sinpif sqrtf tanf tanhf tgammaf truncf y0f y1f
    f h: half2float
    f i: int2float_rd int2float_rn int2float_ru int2float_rz int_as_float uint2float_rd uint2float_rn
        uint2float_ru uint2float_rz
    f q: ll2float_rd ll2float_rn ll2float_ru ll2float_rz ull2float_rd ull2float_rn ull2float_ru ull2float_rz
    ff f: fast_sincosf modff sincosf sincospif
    fi f: frexpf
    h f: float2half_rn
    i d: double2hiint double2int_rd double2int_rn double2int_ru double2int_rz double2loint double2uint_rd
        double2uint_rn double2uint_ru double2uint_rz ilogb isfinited isinfd isnand signbitd
    i f: finitef float2int_rd float2int_rn float2int_ru float2int_rz float2uint_rd float2uint_rn float2uint_ru
        float2uint_rz float_as_int ilogbf isinff isnanf signbitf
    i i: abs brev clz ffs popc
    i q: clzll ffsll popcll
    q d: double2ll_rd double2ll_rn double2ll_ru double2ll_rz double2ull_rd double2ull_rn double2ull_ru
        double2ull_rz double_as_longlong llrint llround
    q f: float2ll_rd float2ll_rn float2ll_ru float2ll_rz float2ull_rd float2ull_rn float2ull_ru float2ull_rz
        llrintf llroundf
    q q: brevll llabs
    d dd: atan2 copysign dadd_rd dadd_rn dadd_ru dadd_rz ddiv_rd ddiv_rn ddiv_ru ddiv_rz dmul_rd dmul_rn dmul_ru
        dmul_rz fdim fmax fmin fmod hypot nextafter pow remainder
    d di: ldexp powi scalbn
    d id: jn yn
    d ii: hiloint2double
    di dd: remquo
    f ff: atan2f copysignf fadd_rd fadd_rn fadd_ru fadd_rz fast_fdividef fast_powf fdimf fdiv_rd fdiv_rn fdiv_ru
        fdiv_rz fmaxf fminf fmodf fmul_rd fmul_rn fmul_ru fmul_rz fsub_rd fsub_rn fsub_ru fsub_rz hypotf
        nextafterf powf remainderf
    f fi: ldexpf powif scalbnf
    f if: jnf ynf
    fi ff: remquof
    i ii: hadd max min mul24 mulhi rhadd uhadd umax umin umul24 umulhi urhadd
    q qq: llmax llmin mul64hi ullmax ullmin umul64hi
    d ddd: fma fma_rd fma_rn fma_ru fma_rz
    f fff: fmaf fmaf_rd fmaf_rn fmaf_ru fmaf_rz
    i iii: byte_perm sad usad
    """
)
_FP16 = _table(
    """
    ? e: __hisnan
    B e: __half2uchar_rz
    H e: __half2ushort_rd __half2ushort_rn __half2ushort_ru __half2ushort_rz __half_as_ushort
    I e: __half2uint_rd __half2uint_rn __half2uint_ru __half2uint_rz
    Q e: __half2ull_rd __half2ull_rn __half2ull_ru __half2ull_rz
    b e: __half2char_rz
    e H: __ushort2half_rd __ushort2half_rn __ushort2half_ru __ushort2half_rz __ushort_as_half
    e I: __uint2half_rd __uint2half_rn __uint2half_ru __uint2half_rz
    e Q: __ull2half_rd __ull2half_rn __ull2half_ru __ull2half_rz
    e d: __double2half
    e e: __habs __hneg habs hceil hcos hexp hexp10 hexp2 hfloor hlog hlog10 hlog2 hneg hrcp hrint hrsqrt hsin
        hsqrt htanh htanh_approx htrunc
    e f: __float2half __float2half_rd __float2half_rn __float2half_ru __float2half_rz
    e h: __short2half_rd __short2half_rn __short2half_ru __short2half_rz __short_as_half
    e i: __int2half_rd __int2half_rn __int2half_ru __int2half_rz
    e q: __ll2half_rd __ll2half_rn __ll2half_ru __ll2half_rz
    f e: __half2float
    h e: __half2short_rd __half2short_rn __half2short_ru __half2short_rz __half_as_short
    i e: __half2int_rd __half2int_rn __half2int_ru __half2int_rz __hisinf
    q e: __half2ll_rd __half2ll_rn __half2ll_ru __half2ll_rz
    ? ee: __heq __hequ __hge __hgeu __hgt __hgtu __hle __hleu __hlt __hltu __hne __hneu heq hge hgt hle hlt hne
    e ee: __hadd __hadd_rn __hadd_sat __hdiv __hmax __hmax_nan __hmin __hmin_nan __hmul __hmul_rn __hmul_sat
        __hsub __hsub_rn __hsub_sat hadd hdiv hmax hmin hmul hsub
    e eee: __hfma __hfma_relu __hfma_sat hfma
    """
)

FUNCTIONS = {
    **{f"libdevice.{name}": types for name, types in _LIBDEVICE.items()},
    **{f"fp16.{name}": types for name, types in _FP16.items()},
}
"""Signatures of the functions of both modules, by dotted name."""
MODULES = ("libdevice", "fp16")
MODULE_OF = {"numba.cuda.libdevice": "libdevice", "numba.cuda.fp16": "fp16", "numba.cuda._internal.cuda_fp16": "fp16"}
"""Modules of these functions, by their ``__module__``."""

COMPONENTS = "xyzw"
_NAMES_IN_C = {
    **{"int8": ("char",), "int16": ("short",), "int32": ("int",), "int64": ("long", "longlong")},
    **{"uint8": ("uchar",), "uint16": ("ushort",), "uint32": ("uint",), "uint64": ("ulong", "ulonglong")},
    **{"float32": ("float",), "float64": ("double",)},
}
VECTORS = {f"{base}x{count}": (base, count) for base in _NAMES_IN_C for count in range(1, 5)}
"""Vector types, with the dtype and the number of their components."""
VECTOR_ALIASES = {
    f"{name}{count}": f"{base}x{count}"
    for base, names in _NAMES_IN_C.items()
    for name in names
    for count in range(1, 5)
}
"""Names of the vector types in CUDA C, such as ``float3`` for ``float32x3``."""
