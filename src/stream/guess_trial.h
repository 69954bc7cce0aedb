/*
 * Whether decode should read what the next layer will probably want. Reads for guesses are made
 * when the disk has nothing else to do, so right ones save their time and wrong ones cost what of
 * them is still under way when a wanted one comes. Where most are right they win, whatever the
 * disk; where fewer are, that depends on how long a read and how long a layer's computing takes, so
 * it is tried: graphs with and without in turn, by the clock. Bits do not depend on it.
 *
 * Threads: the one that runs the graph.
 */
#ifndef BMOE_STREAM_GUESS_TRIAL_H
#define BMOE_STREAM_GUESS_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

enum guess_mode { GUESS_AUTO = 0, GUESS_ALWAYS, GUESS_NEVER };

enum {
    GUESS_WARM_UP = 16, /* graphs before the first trial */
    GUESS_TRIAL = 24,   /* of a trial, half of them without */
    GUESS_HOLD = 256    /* between two trials */
};

struct guess_trial {
    enum guess_mode mode;
    bool off;             /* what the last trial found */
    double guessed, used; /* read for a guess, and of it used; older ones count less */
    uint64_t guessed_before, used_before; /* the pager's counts when the last graph ended */
    uint32_t hold;                        /* graphs until a trial may begin */
    uint32_t trial; /* graphs of the trial under way that have ended; GUESS_TRIAL: none is */
    int64_t us[2][GUESS_TRIAL / 2]; /* of these graphs, with and without */
};

void guess_trial_init(struct guess_trial *t, enum guess_mode mode);
/* Whether the narrow graph that begins guesses. */
bool guess_trial_on(const struct guess_trial *t);
/* It took so long, and these are the pager's counts now. */
void guess_trial_told(struct guess_trial *t, int64_t us, uint64_t guessed, uint64_t used);
/* Another graph ended: its guesses do not count. */
void guess_trial_skip(struct guess_trial *t, uint64_t guessed, uint64_t used);

#endif
