// Context switches between stacks: callee-saved registers are pushed onto one stack and popped from the other.

#pragma once

#include <stdint.h>

#if defined(__x86_64__) || defined(__aarch64__)

struct wd_context {
    void *stack;
};

extern "C" void wd_switch_stacks(void **from, void *to) asm("wd_switch_stacks")
    __attribute__((visibility("hidden")));
extern "C" void wd_begin() asm("wd_begin") __attribute__((visibility("hidden")));

#if defined(__x86_64__)

asm(".text\n"
    "wd_switch_stacks:\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  ret\n"
    "wd_begin:\n"
    "  call *%rbx\n"
    "  hlt\n");

// Nine words align the stack to 16 bytes where the function is called.
constexpr int wd_first_words = 9, wd_word_of_function = 4, wd_word_of_return = 6;

static inline uintptr_t wd_stack_pointer() {
    uintptr_t pointer;
    asm("movq %%rsp, %0" : "=r"(pointer));
    return pointer;
}

#else

asm(".text\n"
    ".balign 4\n"
    "wd_switch_stacks:\n"
    "  sub sp, sp, #160\n"
    "  stp x19, x20, [sp, #0]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n"
    "  stp x25, x26, [sp, #48]\n  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
    "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n  stp d12, d13, [sp, #128]\n  stp d14, d15, [sp, #144]\n"
    "  mov x9, sp\n"
    "  str x9, [x0]\n"
    "  mov sp, x1\n"
    "  ldp x19, x20, [sp, #0]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n"
    "  ldp x25, x26, [sp, #48]\n  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
    "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n"
    "  add sp, sp, #160\n"
    "  ret\n"
    ".balign 4\n"
    "wd_begin:\n"
    "  blr x19\n"
    "  brk #0\n");

constexpr int wd_first_words = 20, wd_word_of_function = 0, wd_word_of_return = 11;

static inline uintptr_t wd_stack_pointer() {
    uintptr_t pointer;
    asm("mov %0, sp" : "=r"(pointer));
    return pointer;
}

#endif

// Initialise a context that starts with function() on an empty stack.
static inline void wd_make_context(wd_context *to, char *stack, uintptr_t size, void (*function)()) {
    uintptr_t *top = reinterpret_cast<uintptr_t *>((reinterpret_cast<uintptr_t>(stack) + size) & ~uintptr_t(15));
    uintptr_t *words = top - wd_first_words;
    for (int i = 0; i < wd_first_words; ++i) words[i] = 0;
    words[wd_word_of_function] = reinterpret_cast<uintptr_t>(function);
    words[wd_word_of_return] = reinterpret_cast<uintptr_t>(wd_begin);
    to->stack = words;
}

static inline void wd_switch(wd_context *from, wd_context *to) { wd_switch_stacks(&from->stack, to->stack); }

#else

#include <ucontext.h>

struct wd_context {
    ucontext_t machine;
};

static inline uintptr_t wd_stack_pointer() { return reinterpret_cast<uintptr_t>(__builtin_frame_address(0)); }

static inline void wd_make_context(wd_context *to, char *stack, uintptr_t size, void (*function)()) {
    getcontext(&to->machine);
    to->machine.uc_stack.ss_sp = stack;
    to->machine.uc_stack.ss_size = size;
    to->machine.uc_link = nullptr;
    makecontext(&to->machine, function, 0);
}

static inline void wd_switch(wd_context *from, wd_context *to) { swapcontext(&from->machine, &to->machine); }

#endif
