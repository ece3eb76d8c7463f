// Atomic functions of CUDA for the host, atomic between its cores.

#pragma once

#include <stdint.h>
#include <string.h>

// Atomically replace *address by change(*address); return the old value.
template <class T, class Change>
static inline T wd_fetch_update(T *address, Change change) {
    T old, next;
    __atomic_load(address, &old, __ATOMIC_RELAXED);
    do {
        next = change(old);
    } while (!__atomic_compare_exchange(address, &old, &next, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    return old;
}

// Non-deduced context: T is deduced from the array alone, and the value is converted to it, as in a call of CUDA's
// overloads.
template <class T>
struct wd_identity {
    typedef T type;
};

#define WD_ATOMIC(name, result)                                                         \
    template <class T>                                                                  \
    static inline T name(T *address, typename wd_identity<T>::type value) {             \
        return wd_fetch_update(address, [value](T old) { return static_cast<T>(result); }); \
    }

WD_ATOMIC(atomicAdd, old + value)
WD_ATOMIC(atomicSub, old - value)
WD_ATOMIC(atomicExch, value)
WD_ATOMIC(atomicMin, value < old ? value : old)
WD_ATOMIC(atomicMax, value > old ? value : old)
WD_ATOMIC(atomicAnd, old & value)
WD_ATOMIC(atomicOr, old | value)
WD_ATOMIC(atomicXor, old ^ value)
WD_ATOMIC(atomicInc, old >= value ? 0 : old + 1)
WD_ATOMIC(atomicDec, old == 0 || old > value ? value : old - 1)

#undef WD_ATOMIC

template <class T>
static inline T atomicCAS(T *address, typename wd_identity<T>::type compare, typename wd_identity<T>::type value) {
    T expected = compare;
    __atomic_compare_exchange(address, &expected, &value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return expected;
}

static inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
