// Reset of replicas: a start state of the pool is copied to the replica. See warpdrive/resetter.py.

#pragma once

// Make the next episode of the replica begin from a start state.
template <class Continued>
WD_FUNCTION void wd_clear_continued(Continued continued) {
    if (wd_agent() == 0) continued(wd_env()) = false;
}

// Return true if the replica's next episode begins from a start state, not from the state in which the last one ended.
template <class Continued>
WD_FUNCTION bool wd_begins_anew(Continued continued) {
    return !continued(wd_env());
}

// Choose the next start state of the replica, in its first thread.
template <class Choice, class Stream, class PoolSize>
WD_FUNCTION void wd_choose_start(Choice choice, Stream stream, PoolSize pool_size) {
    const int env = wd_env();
    if (wd_agent() == 0) choice(env) = pool_size(0) > 1 ? wd_replica_integer(stream, env, pool_size(0)) : 0;
}

// Copy one array of the chosen start state; each thread of the replica copies its share of target[env, :].
template <class Target, class Pool, class Choice>
WD_FUNCTION void wd_copy_start(Target target, Pool pool, Choice choice) {
    const int env = wd_env();
    const int start = choice(env);
    for (long long i = wd_agent(); i < target.extent(1); i += wd_num_agents()) target(env, i) = pool(start, i);
}

// Reset the step counter and the running returns.
template <class Timestep, class RunningReturn>
WD_FUNCTION void wd_start_episode(Timestep timestep, RunningReturn running_return) {
    const int env = wd_env(), agent = wd_agent();
    running_return(env, agent) = 0;
    if (agent == 0) timestep(env) = 0;
}
