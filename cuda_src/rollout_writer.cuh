// Recording of steps into the slots of a rollout. See warpdrive/fused_step/rollout_writer.py.
//
// `slot` is an array with one integer, the index of the current step of the rollout.

#pragma once

// Record one number per agent: record[t, env, agent] = source[env, agent].
template <class Source, class Record, class Slot>
WD_FUNCTION void wd_record_per_agent(Source source, Record record, Slot slot) {
    const int env = wd_env(), agent = wd_agent();
    record(slot(0), env, agent) = source(env, agent);
}

// Record a multiple of the sum of the rewards of an agent's team. Agents of one team have equal numbers in `team`.
template <class Rewards, class Team, class Share, class Record, class Slot>
WD_FUNCTION void wd_record_team_reward(Rewards rewards, Team team, Share share, Record record, Slot slot) {
    const int env = wd_env(), agent = wd_agent();
    float total = 0.0f;
    for (int other = 0; other < team.extent(0); ++other)
        if (team(other) == team(agent)) total += rewards(env, other);
    record(slot(0), env, agent) = total * share(agent);
}

// Copy an agent's observation, followed by a one-hot index of the agent. Agents without a row in `target` copy nothing.
template <class Source, class Target, class SourceRows, class TargetRows, class Place>
WD_FUNCTION void wd_extend_observation(Source source, Target target, SourceRows source_rows, TargetRows target_rows,
                                       Place place) {
    const int env = wd_env(), agent = wd_agent();
    const int row = target_rows(agent), size = source.extent(2);
    if (row < 0) return;
    for (int i = 0; i < size; ++i) target(env, row, i) = source(env, source_rows(agent), i);
    for (int i = size; i < target.extent(2); ++i) target(env, row, i) = i - size == place(agent) ? 1 : 0;
}

// Record one number per replica: record[t, env] = source[env].
template <class Source, class Record, class Slot>
WD_FUNCTION void wd_record_per_env(Source source, Record record, Slot slot) {
    const int env = wd_env();
    if (wd_agent() == 0) record(slot(0), env) = source(env);
}

// Copy a thread's share of source[env, :] to record[slot, env, :]. Adjacent threads copy adjacent elements, so that a
// GPU coalesces the accesses.
template <class Source, class Record>
WD_FUNCTION void wd_copy_share(Source source, Record record, long long slot) {
    const int env = wd_env();
    for (long long i = wd_agent(); i < source.extent(1); i += wd_num_agents()) record(slot, env, i) = source(env, i);
}

// Record source[env, :] in slot t; each thread of the replica copies its share.
template <class Source, class Record, class Slot>
WD_FUNCTION void wd_record_row(Source source, Record record, Slot slot) {
    wd_copy_share(source, record, slot(0));
}

// Record source[env, :] in slot t + 1.
template <class Source, class Record, class Slot>
WD_FUNCTION void wd_record_next_row(Source source, Record record, Slot slot) {
    wd_copy_share(source, record, slot(0) + 1);
}

// Copy source[env, :] to target[env, :]; each thread of the replica copies its share.
template <class Source, class Target>
WD_FUNCTION void wd_copy_row(Source source, Target target) {
    const int env = wd_env();
    for (long long i = wd_agent(); i < source.extent(1); i += wd_num_agents()) target(env, i) = source(env, i);
}

// Assign the slot of `final` for the last observations of this step's episode; -1 unless it was only truncated. If
// there are more truncations than slots, the last slot is reused.
template <class Terminated, class Truncated, class FinalSlot, class FinalCount, class Final, class Slot>
WD_FUNCTION void wd_note_final_slot(Terminated terminated, Truncated truncated, FinalSlot final_slot,
                                    FinalCount final_count, Final final, Slot slot) {
    const int env = wd_env();
    if (wd_agent() != 0) return;
    int chosen = -1;
    if (truncated(env) && !terminated(env)) {
        const int last = static_cast<int>(final.extent(0)) - 1;
        chosen = final_count(env) < last ? final_count(env) : last;
        final_count(env) += 1;
    }
    final_slot(slot(0), env) = chosen;
}

// Record the final observations source[env, :] of a truncated episode.
template <class Source, class Record, class FinalSlot, class Slot>
WD_FUNCTION void wd_record_final_row(Source source, Record record, FinalSlot final_slot, Slot slot) {
    const int where = final_slot(slot(0), wd_env());
    if (where >= 0) wd_copy_share(source, record, where);
}
