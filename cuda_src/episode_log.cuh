// Step counting, episode termination and episode statistics. See warpdrive/episode_log.py.

#pragma once

// Increment the step counter and clear the step's outputs.
template <class Timestep, class Rewards, class Terminated, class Truncated>
WD_FUNCTION void wd_begin_step(Timestep timestep, Rewards rewards, Terminated terminated, Truncated truncated) {
    const int env = wd_env(), agent = wd_agent();
    rewards(env, agent) = 0;
    if (agent == 0) {
        timestep(env) += 1;
        terminated(env) = false;
        truncated(env) = false;
    }
}

// Reset the step counter of replicas in which an episode began instead of a step.
template <class Timestep, class Skipped>
WD_FUNCTION void wd_uncount_step(Timestep timestep, Skipped skipped) {
    const int env = wd_env();
    if (wd_agent() == 0 && skipped(env)) timestep(env) = 0;
}

// Truncate the episode at its time limit.
template <class Timestep, class Truncated, class EpisodeLength>
WD_FUNCTION void wd_end_step(Timestep timestep, Truncated truncated, EpisodeLength episode_length) {
    const int env = wd_env();
    if (wd_agent() == 0 && timestep(env) >= episode_length(0)) truncated(env) = true;
}

// Return true if the replica's episode has ended with this step.
template <class Terminated, class Truncated>
WD_FUNCTION bool wd_is_done(Terminated terminated, Truncated truncated) {
    const int env = wd_env();
    return terminated(env) || truncated(env);
}

// Return true if the replica's episode has not ended.
template <class Terminated, class Truncated>
WD_FUNCTION bool wd_is_running(Terminated terminated, Truncated truncated) {
    const int env = wd_env();
    return !(terminated(env) || truncated(env));
}

// Record which agents are in the episode before the step.
template <class Active, class Acted>
WD_FUNCTION void wd_note_acting(Active active, Acted acted) {
    const int env = wd_env(), agent = wd_agent();
    acted(env, agent) = active(env, agent);
}

// Clear non-finite rewards of agents that had left the episode before the step.
template <class Rewards, class Acted>
WD_FUNCTION void wd_clear_absent_rewards(Rewards rewards, Acted acted) {
    const int env = wd_env(), agent = wd_agent();
    if (!acted(env, agent) && !(fabsf(rewards(env, agent)) < wd_infinity)) rewards(env, agent) = 0;
}

// Add the step's rewards to the returns of the running episode.
template <class Rewards, class RunningReturn>
WD_FUNCTION void wd_add_rewards(Rewards rewards, RunningReturn running_return) {
    const int env = wd_env(), agent = wd_agent();
    running_return(env, agent) += rewards(env, agent);
}

// Record the return and length of an episode that has ended, and add them to the running sums. An episode that began
// midway, whose start state is -1, is excluded.
template <class Choice, class Timestep, class Terminated, class RunningReturn, class LastReturn, class LastLength,
          class ReturnSum, class LengthSum, class Episodes, class Terminations>
WD_FUNCTION void wd_log_episode(Choice choice, Timestep timestep, Terminated terminated, RunningReturn running_return,
                                LastReturn last_return, LastLength last_length, ReturnSum return_sum,
                                LengthSum length_sum, Episodes episodes, Terminations terminations) {
    const int env = wd_env(), agent = wd_agent();
    if (choice(env) == -1) return;
    last_return(env, agent) = running_return(env, agent);
    return_sum(env, agent) += running_return(env, agent);
    if (agent == 0) {
        last_length(env) = timestep(env);
        length_sum(env) += timestep(env);
        episodes(env) += 1;
        if (terminated(env)) terminations(env) += 1;
    }
}
