// Generalised advantage estimation (Schulman et al. 2016, arXiv:1506.02438). See training/experience/advantages.py.

#pragma once

// Write the advantages of a replica's agents that share a policy; each thread iterates backwards for one agent.
template <class Rewards, class Terminated, class Truncated, class FinalSlot, class Active, class StillActive,
          class AgentIds, class Values, class FinalValues, class Coefficients, class Advantages>
WD_FUNCTION void wd_generalised_advantages(Rewards rewards, Terminated terminated, Truncated truncated,
                                           FinalSlot final_slot, Active active, StillActive still_active,
                                           AgentIds agent_ids, Values values, FinalValues final_values,
                                           Coefficients coefficients, Advantages advantages) {
    const int env = wd_env(), agent = wd_agent();
    const int agent_id = agent_ids(agent);
    const float gamma = coefficients(0), gae_lambda = coefficients(1), absent_value = coefficients(2);
    const bool returns_after_leaving = coefficients(3) != 0.0f;
    float later = 0.0f;  // advantage of the next step of the same episode
    for (int t = static_cast<int>(advantages.extent(0)) - 1; t >= 0; --t) {
        const bool is_there = active(t, env, agent_id), stays = still_active(t, env, agent_id);
        if (!is_there && !returns_after_leaving) {
            advantages(t, env, agent) = 0.0f;
            continue;
        }
        float following = 0.0f;  // value of the next state
        if (terminated(t, env) || !(stays || returns_after_leaving)) {
            later = 0.0f;
        } else if (truncated(t, env)) {
            later = 0.0f;
            following = stays ? final_values(final_slot(t, env), env, agent) : absent_value;
        } else if (stays) {
            later *= gae_lambda;
            following = values(t + 1, env, agent);
        } else {
            following = absent_value;
        }
        const float value = is_there ? values(t, env, agent) : absent_value;
        later = rewards(t, env, agent_id) + gamma * (following + later) - value;
        advantages(t, env, agent) = later;
    }
}
