"""Functions that WebAssembly has no instructions for, and that LLVM would call in a C library.

Each is defined exactly, and results are bitwise those of the CPU backend: minimum and maximum of floats return the
other argument if one is NaN, the remainder of a division is exact, and ``fma`` rounds once (Boldo and Melquiond,
"Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", IEEE Transactions on Computers
57, 2008: a sum rounded to odd with enough additional digits rounds to the same as the exact one).
"""

from __future__ import annotations

import re

_FMA = """
define internal float @wd.fma.f32(float %x, float %y, float %z) alwaysinline {
begin:
  %a = fpext float %x to double
  %b = fpext float %y to double
  %c = fpext float %z to double
  %p = fmul double %a, %b
  %s = fadd double %p, %c
  %bits = bitcast double %s to i64
  %rest = and i64 %bits, 536870911
  %is.between = icmp ne i64 %rest, 268435456
  %size = and i64 %bits, 9223372036854775807
  %before = add i64 %size, -1
  %is.normal = icmp uge i64 %before, 4039728865751334911
  %is.simple = and i1 %is.between, %is.normal
  br i1 %is.simple, label %simple, label %rare, !prof !{!"branch_weights", i32 1000, i32 1}
simple:
  %f = fptrunc double %s to float
  ret float %f
rare:
  %g = call float @wd.rare_fma(double %p, double %c, double %s)
  ret float %g
}
define internal float @wd.rare_fma(double %p, double %c, double %s) noinline nounwind willreturn memory(none) {
  %v = fsub double %s, %p
  %u = fsub double %s, %v
  %q = fsub double %p, %u
  %r = fsub double %c, %v
  %e = fadd double %q, %r
  %exact = fcmp ueq double %e, 0.0
  %bits = bitcast double %s to i64
  %last = and i64 %bits, 1
  %odd = icmp ne i64 %last, 0
  %size = and i64 %bits, 9223372036854775807
  %infinite = icmp uge i64 %size, 9218868437227405312
  %some = or i1 %exact, %odd
  %keep = or i1 %some, %infinite
  %low = fcmp olt double %e, 0.0
  %negative = icmp slt i64 %bits, 0
  %towards = xor i1 %low, %negative
  %less = add i64 %bits, -1
  %more = or i64 %bits, 1
  %next = select i1 %towards, i64 %less, i64 %more
  %rounded = select i1 %keep, i64 %bits, i64 %next
  %d = bitcast i64 %rounded to double
  %f = fptrunc double %d to float
  ret float %f
}
"""
# The product of two float32 is exact in float64. If their sum, rounded to float64, lies between two float32 and not
# halfway, it is rounded to the same as the exact one, and a sum of zero is exact (%before wraps around). Else, and if
# the result is subnormal, as the float32 are then further apart: %e is the error of the sum (Knuth's two-sum). If it is
# not zero and the sum is even, the exact sum lies beyond the sum or before it, and the odd neighbour on that side takes
# its place.

_EXTREME = """
define internal {kind} @wd.{name}.{suffix}({kind} %a, {kind} %b) alwaysinline {{
  %is = fcmp {relation} {kind} %b, %a
  %m = select i1 %is, {kind} %b, {kind} %a
  %nan = fcmp uno {kind} %a, %a
  %r = select i1 %nan, {kind} %b, {kind} %m
  %other = fcmp {relation} {kind} %a, %b
  %s = select i1 %other, {kind} %a, {kind} %b
  %never.nan = fcmp ord {kind} %b, %b
  %known = call i1 @llvm.is.constant.i1(i1 %never.nan)
  %t = select i1 %known, {kind} %s, {kind} %r
  ret {kind} %t
}}
declare i1 @llvm.is.constant.i1(i1)
"""
# Of zeros with different signs, which LLVM leaves open, these return the one that LLVM returns on x86: the second if it
# knows that this is not NaN (a constant, a converted integer), and else the first.

_FMOD = """
define internal {kind} @wd.fmod.{suffix}({kind} %x, {kind} %y) {{
begin:
  %x.own = bitcast {kind} %x to {word}
  %y.own = bitcast {kind} %y to {word}
  %x.all = {wide} %x.own{to_wide}
  %y.all = {wide} %y.own{to_wide}
  %a = and i64 %x.all, {size}
  %b = and i64 %y.all, {size}
  %is.less = icmp ult i64 %a, %b
  %b.number = icmp ule i64 %b, {infinity}
  %is.x = and i1 %is.less, %b.number
  br i1 %is.x, label %unchanged, label %check
unchanged:
  ret {kind} %x
check:
  %a.large = icmp uge i64 %a, {infinity}
  %b.none = icmp eq i64 %b, 0
  %b.nan = xor i1 %b.number, true
  %bad = or i1 %a.large, %b.none
  %bad.too = or i1 %bad, %b.nan
  br i1 %bad.too, label %nan, label %numbers
nan:
  %product = fmul {kind} %x, %y
  %none = fdiv {kind} %product, %product
  ret {kind} %none
numbers:
  %a.stored = lshr i64 %a, {digits}
  %b.stored = lshr i64 %b, {digits}
  %a.exponent = call i64 @llvm.umax.i64(i64 %a.stored, i64 1)
  %b.exponent = call i64 @llvm.umax.i64(i64 %b.stored, i64 1)
  %a.normal = icmp ne i64 %a.stored, 0
  %b.normal = icmp ne i64 %b.stored, 0
  %a.first = select i1 %a.normal, i64 {implicit}, i64 0
  %b.first = select i1 %b.normal, i64 {implicit}, i64 0
  %a.rest = and i64 %a, {fraction}
  %b.rest = and i64 %b, {fraction}
  %m = or i64 %a.rest, %a.first
  %n = or i64 %b.rest, %b.first
  %distance = sub i64 %a.exponent, %b.exponent
  %r.begin = urem i64 %m, %n
  br label %loop
loop:
  %r = phi i64 [ %r.begin, %numbers ], [ %r.next, %again ]
  %d = phi i64 [ %distance, %numbers ], [ %d.next, %again ]
  %over = icmp eq i64 %d, 0
  br i1 %over, label %pack, label %again
again:
  %k = call i64 @llvm.umin.i64(i64 %d, i64 {room})
  %r.wide = shl i64 %r, %k
  %r.next = urem i64 %r.wide, %n
  %d.next = sub i64 %d, %k
  br label %loop
pack:
  %zeros = call i64 @llvm.ctlz.i64(i64 %r, i1 false)
  %shift = sub i64 %zeros, {room}
  %exponent = sub i64 %b.exponent, %shift
  %is.normal = icmp sge i64 %exponent, 1
  %tiny.shift = sub i64 %b.exponent, 1
  %by = select i1 %is.normal, i64 %shift, i64 %tiny.shift
  %shifted = shl i64 %r, %by
  %above = sub i64 %exponent, 1
  %above.or.none = select i1 %is.normal, i64 %above, i64 0
  %high = shl i64 %above.or.none, {digits}
  %packed = add i64 %shifted, %high
  %is.zero = icmp eq i64 %r, 0
  %absolute = select i1 %is.zero, i64 0, i64 %packed
  %sign = and i64 %x.all, {sign}
  %found = or i64 %absolute, %sign
  %own = {narrow} i64 %found{to_narrow}
  %result = bitcast {word} %own to {kind}
  ret {kind} %result
}}
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.ctlz.i64(i64, i1)
"""
# Both numbers are integers times powers of two. %r is the remainder of the first, shifted left by as many digits at
# once as a word has room for.


def _fmod(kind: str, suffix: str, bits: int, digits: int) -> str:
    """Return the remainder of floats with that many bits, and digits after the first."""
    sign, implicit = 1 << (bits - 1), 1 << digits
    return _FMOD.format(
        kind=kind,
        suffix=suffix,
        word=f"i{bits}",
        digits=digits,
        room=63 - digits,
        implicit=implicit,
        fraction=implicit - 1,
        infinity=sign - implicit,
        size=sign - 1,
        sign=sign if bits < 64 else -sign,
        wide="zext i32" if bits < 64 else "or i64",
        to_wide=" to i64" if bits < 64 else ", 0",
        narrow="trunc" if bits < 64 else "or",
        to_narrow=" to i32" if bits < 64 else ", 0",
    )


_REMAINDERS = {"float": _fmod("float", "f32", 32, 23), "double": _fmod("double", "f64", 64, 52)}
_SUFFIXES = {"float": "f32", "double": "f64"}
_DEFINITIONS = {
    "wd.fma.f32": _FMA,
    **{
        f"wd.{name}.{suffix}": _EXTREME.format(name=name, suffix=suffix, kind=kind, relation=relation)
        for name, relation in (("minnum", "olt"), ("maxnum", "ogt"))
        for suffix, kind in (("f32", "float"), ("f64", "double"))
    },
}
_INSTRUCTIONS = {"sqrtf": "llvm.sqrt.f32", "sqrt": "llvm.sqrt.f64"}
"""Functions of the C library that are instructions."""


def with_own_functions(llvm: str) -> str:
    """Return an LLVM module that calls the functions of this file where it called those of LLVM or a C library.

    Args:
        llvm: LLVM assembly.

    Returns:
        LLVM assembly.
    """
    used = []
    for name, definition in _DEFINITIONS.items():
        original = re.escape(name.replace("wd.", "@llvm."))
        if re.search(rf"{original}\b", llvm):
            llvm = re.sub(rf"^declare .*{original}\(.*\n", "", llvm, flags=re.MULTILINE)
            llvm = re.sub(rf"{original}\b", f"@{name}", llvm)
            used.append(definition)
    for name, instruction in _INSTRUCTIONS.items():
        if f"@{name}(" in llvm:
            llvm = llvm.replace(f"@{name}(", f"@{instruction}(")
    llvm, remainders = re.subn(r"\bfrem (?:[a-z]+ )*(float|double) ([^,\n]+), ([^,\n]+)", _call_of_fmod, llvm)
    if remainders:
        used += [text for kind, text in _REMAINDERS.items() if f"@wd.fmod.{_SUFFIXES[kind]}(" in llvm]
    return _with_each_declaration_once(llvm + "".join(used))


def _call_of_fmod(found: re.Match[str]) -> str:
    kind, x, y = found.groups()
    return f"call {kind} @wd.fmod.{_SUFFIXES[kind]}({kind} {x}, {kind} {y})"


def _with_each_declaration_once(llvm: str) -> str:
    lines, declared = [], set()
    for line in llvm.splitlines():
        name = re.match(r"declare .*?@([\w.]+)\(", line)
        if name and name[1] in declared:
            continue
        if name:
            declared.add(name[1])
        lines.append(line)
    return "\n".join(lines) + "\n"
