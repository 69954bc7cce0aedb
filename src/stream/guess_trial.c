/* A trial's graphs go with, without, without, with, so that a trend weighs on both alike. Medians
 * are compared: a token that meets many absent experts takes several times as long as another. */
#include "stream/guess_trial.h"

#include <stdlib.h>

#define SURE_PART  0.7  /* of guesses that are right: no trial */
#define LOSES_PART 0.97 /* the time without by that with, below which guesses end */
#define FORGET     0.95 /* each graph */
#define ENOUGH     64   /* guesses that tell how many are right */

void guess_trial_init(struct guess_trial *t, enum guess_mode mode)
{
    *t = (struct guess_trial){.mode = mode, .hold = GUESS_WARM_UP, .trial = GUESS_TRIAL};
}

static bool sure(const struct guess_trial *t)
{
    return t->guessed < ENOUGH || t->used >= SURE_PART * t->guessed;
}

/* Of the trial's next graph. */
static bool without(const struct guess_trial *t)
{
    return t->trial % 4 == 1 || t->trial % 4 == 2;
}

bool guess_trial_on(const struct guess_trial *t)
{
    if (t->mode != GUESS_AUTO)
        return t->mode == GUESS_ALWAYS;
    return t->trial < GUESS_TRIAL ? !without(t) : !t->off;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t median(int64_t *us)
{
    qsort(us, GUESS_TRIAL / 2, sizeof *us, by_value);
    return us[GUESS_TRIAL / 4];
}

static void decide(struct guess_trial *t)
{
    double with = (double)median(t->us[0]), not = (double)median(t->us[1]);
    t->off = not < LOSES_PART * with;
}

void guess_trial_skip(struct guess_trial *t, uint64_t guessed, uint64_t used)
{
    t->guessed_before = guessed;
    t->used_before = used;
}

static void note_right(struct guess_trial *t, uint64_t guessed, uint64_t used)
{
    t->guessed = FORGET * t->guessed + (double)(guessed - t->guessed_before);
    t->used = FORGET * t->used + (double)(used - t->used_before);
}

void guess_trial_told(struct guess_trial *t, int64_t us, uint64_t guessed, uint64_t used)
{
    if (guess_trial_on(t)) /* else what was known stays known */
        note_right(t, guessed, used);
    guess_trial_skip(t, guessed, used);
    if (t->trial < GUESS_TRIAL) {
        t->us[without(t)][t->trial / 2] = us;
        if (++t->trial < GUESS_TRIAL)
            return;
        decide(t);
        t->hold = GUESS_HOLD;
    } else if (t->hold > 0) {
        t->hold--;
    } else if (t->off || !sure(t)) {
        t->trial = 0;
    }
}
