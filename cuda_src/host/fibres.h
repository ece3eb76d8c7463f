// Cooperative scheduling of the threads of a replica on one core: they share a stack until one of them waits.

#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "context.h"

// Bytes per stack. A power of two, as the running fibre is found by rounding the stack pointer.
constexpr uintptr_t wd_stack_size = 256 * 1024;

struct wd_replica;

// Stack with the thread that runs on it; the struct is at the upper end of the stack.
struct wd_fibre {
    wd_replica *replica;
    int agent;
    const char *file;  // file and line of the barrier at which it waits
    int line;
    wd_context context;
};

// Return the running fibre.
static inline wd_fibre *wd_this_fibre() {
    const uintptr_t end = (wd_stack_pointer() | (wd_stack_size - 1)) + 1;
    return reinterpret_cast<wd_fibre *>(end - sizeof(wd_fibre));
}

// Error message for the host program, written by the first thread that fails.
struct wd_failure {
    int claimed;
    char text[1020];
};

// State of the replica that runs on a core, and the stacks of its threads.
struct wd_replica {
    int env, agents;
    int next;                             // first agent that has not started
    int ended;                            // number of threads that have ended
    int last_ended;                       // agent of the thread that ended last
    int num_waiting, num_ready, first_ready;
    int generation;                       // parity of the barrier, selects the vote counter
    int votes[2];
    void (*run)(void *);                  // function that each thread calls with `argument`
    void *argument;
    wd_fibre *waiting[WD_NUM_AGENTS], *ready[WD_NUM_AGENTS], *idle[WD_NUM_AGENTS];
    int num_idle, num_stacks;
    wd_fibre *driver;                     // fibre that runs one replica after the other
    wd_context outside;                   // stack of the operating system's thread
    wd_failure *failure;
    bool failed;
    char *stacks;
};

static void wd_fibre_main();

static inline wd_fibre *wd_new_fibre(wd_replica *replica) {
    char *stack = replica->stacks + wd_stack_size * replica->num_stacks++;
    wd_fibre *fibre = reinterpret_cast<wd_fibre *>(stack + wd_stack_size - sizeof(wd_fibre));
    fibre->replica = replica;
    return fibre;
}

// Abort this part of the launch with an error message; the stacks are abandoned.
[[noreturn]] static inline void wd_fail(wd_replica *replica, const char *text) {
    wd_failure *failure = replica->failure;
    if (!__atomic_exchange_n(&failure->claimed, 1, __ATOMIC_SEQ_CST)) {
        snprintf(failure->text, sizeof(failure->text), "%s", text);
    }
    replica->failed = true;
    wd_context left;
    wd_switch(&left, &replica->outside);
    abort();
}

[[noreturn]] static inline void wd_assertion_failed(const char *condition, const char *file, int line) {
    const wd_fibre *self = wd_this_fibre();
    char text[1000];
    snprintf(text, sizeof(text), "%s:%d: assertion '%s' failed in thread %d of replica %d", file, line, condition,
             self->agent, self->replica->env);
    wd_fail(self->replica, text);
}

// Release the waiting threads, once all threads have ended or wait. Fail unless all of them wait at the same barrier.
static inline void wd_open_barrier(wd_replica *replica) {
    const wd_fibre *first = replica->waiting[0];
    char text[1000];
    if (replica->ended > 0) {
        snprintf(text, sizeof(text),
                 "%s:%d: thread %d of replica %d waits at this barrier, which thread %d does not reach: it has returned",
                 first->file, first->line, first->agent, replica->env, replica->last_ended);
        wd_fail(replica, text);
    }
    for (int i = 1; i < replica->num_waiting; ++i) {
        const wd_fibre *other = replica->waiting[i];
        if (other->line != first->line || strcmp(other->file, first->file) != 0) {
            snprintf(text, sizeof(text),
                     "%s:%d: thread %d of replica %d waits at this barrier, and thread %d at another one, %s:%d",
                     first->file, first->line, first->agent, replica->env, other->agent, other->file, other->line);
            wd_fail(replica, text);
        }
    }
    memcpy(replica->ready, replica->waiting, sizeof(wd_fibre *) * replica->num_waiting);
    replica->num_ready = replica->num_waiting;
    replica->first_ready = replica->num_waiting = 0;
    replica->generation ^= 1;
    replica->votes[replica->generation] = 0;
}

// Return the fibre to resume when a thread waits or has ended.
static inline wd_fibre *wd_next_fibre(wd_replica *replica) {
    if (replica->ended == replica->agents) return replica->driver;
    if (replica->next < replica->agents) {
        if (replica->num_idle > 0) return replica->idle[--replica->num_idle];
        wd_fibre *fibre = wd_new_fibre(replica);
        wd_make_context(&fibre->context, reinterpret_cast<char *>(fibre) - wd_stack_size + sizeof(wd_fibre),
                        wd_stack_size - sizeof(wd_fibre), wd_fibre_main);
        return fibre;
    }
    if (replica->first_ready == replica->num_ready) wd_open_barrier(replica);
    return replica->ready[replica->first_ready++];
}

static inline void wd_leave(wd_fibre *self, wd_fibre *next) {
    if (next != self) wd_switch(&self->context, &next->context);
}

// Run the threads that have not started, one after the other.
static inline void wd_run_remaining(wd_replica *replica, wd_fibre *self) {
    while (replica->next < replica->agents) {
        const int agent = replica->next++;
        self->agent = agent;
        replica->run(replica->argument);
        ++replica->ended;
        replica->last_ended = agent;
    }
}

// Entry point of a fibre.
static void wd_fibre_main() {
    wd_fibre *self = wd_this_fibre();
    wd_replica *replica = self->replica;
    for (;;) {
        wd_run_remaining(replica, self);
        replica->idle[replica->num_idle++] = self;
        wd_leave(self, wd_next_fibre(replica));
    }
}

// Call run(argument) in each thread of the replica; return when all have ended. The threads may wait at barriers.
static inline void wd_run_threads(wd_replica *replica, void (*run)(void *), void *argument) {
    replica->next = replica->ended = 0;
    replica->run = run;
    replica->argument = argument;
    wd_run_remaining(replica, replica->driver);
    wd_leave(replica->driver, wd_next_fibre(replica));
}

// Call run(argument) in each thread of the replica, in a plain loop: no thread may wait.
template <class Run>
static inline void wd_run_alone(wd_replica *replica, Run run, void *argument) {
    for (int agent = 0; agent < WD_NUM_AGENTS; ++agent) {
        replica->driver->agent = agent;
        run(argument);
    }
}

// Wait for the other threads of the replica; return the number of threads whose `vote` is 1.
static inline int wd_wait_at(const char *file, int line, int vote) {
    if (WD_NUM_AGENTS == 1) return vote;
    wd_fibre *self = wd_this_fibre();
    wd_replica *replica = self->replica;
    const int generation = replica->generation;
    replica->votes[generation] += vote;
    self->file = file;
    self->line = line;
    replica->waiting[replica->num_waiting++] = self;
    wd_leave(self, wd_next_fibre(replica));
    return replica->votes[generation];
}

// Stacks of one thread of the operating system, allocated once.
struct wd_core {
    wd_replica replica;
    void (*job)(wd_replica *, void *);
    void *argument;
    void *memory;
    size_t size;

    wd_core() : memory(nullptr) {}
    ~wd_core() {
        if (memory != nullptr) munmap(memory, size);
    }

    static void drive() {
        wd_replica *replica = wd_this_fibre()->replica;
        wd_core *core = reinterpret_cast<wd_core *>(replica);
        core->job(replica, core->argument);
        wd_context left;
        wd_switch(&left, &replica->outside);
        abort();
    }

    // Run job(replica, argument) on the driver's stack.
    void run(wd_failure *failure, void (*job)(wd_replica *, void *), void *argument) {
        if (memory == nullptr && !take_memory()) {
            __atomic_store_n(&failure->claimed, 1, __ATOMIC_SEQ_CST);
            snprintf(failure->text, sizeof(failure->text), "no memory for the stacks of %d threads", WD_NUM_AGENTS);
            return;
        }
        this->job = job;
        this->argument = argument;
        char *stacks = replica.stacks;
        replica = wd_replica();
        replica.stacks = stacks;
        replica.agents = WD_NUM_AGENTS;
        replica.failure = failure;
        replica.driver = wd_new_fibre(&replica);
        wd_make_context(&replica.driver->context, stacks, wd_stack_size - sizeof(wd_fibre), drive);
        wd_switch(&replica.outside, &replica.driver->context);
    }

  private:
    bool take_memory() {
        size = wd_stack_size * (WD_NUM_AGENTS + 2);
        void *found = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (found == MAP_FAILED) return false;
        memory = found;
        replica.stacks = reinterpret_cast<char *>((reinterpret_cast<uintptr_t>(found) + wd_stack_size - 1) &
                                                  ~(wd_stack_size - 1));
        // guard page of the driver's stack, on which the first thread runs: a stack overflow faults here
        mprotect(replica.stacks, static_cast<size_t>(sysconf(_SC_PAGESIZE)), PROT_NONE);
        return true;
    }
};
