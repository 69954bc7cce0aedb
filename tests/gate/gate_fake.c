/* The fake device for a gate: see gate_fake.h. */
#include "gate_fake.h"

#include "device/backends_dir.h"
#include "engine/session.h"

#include <stdio.h>

static const char *model_path;
static struct gate_live right = {.prompt_bytes = GATE_FAKE_PROMPT_BYTES, .n_predict = 4};
struct gate_fake_said gate_fake_said;

ggml_backend_dev_t gate_fake_open(int argc, char **argv, const char **model)
{
    char room[4096], variant[64] = "";
    struct bmoe_error err;

    if (argc != 2)
        return NULL;
    *model = model_path = argv[1];
    if (backend_load_cpu(backends_dir_choose(NULL, room, sizeof room), variant, sizeof variant,
                         &err) < 0)
        return NULL;
    return fake_device(2);
}

int gate_fake_heal(void **state)
{
    (void)state;
    fake_device_heal();
    return 0;
}

int gate_fake_learn(void **state)
{
    struct gate_case c;
    (void)state;
    gate_case_init(&c);
    c.model = model_path;
    c.n_ubatch = GATE_FAKE_UBATCH;
    gate_live_reference(&c, &right);
    return 0;
}

int gate_fake_forget(void **state)
{
    (void)state;
    gate_live_fini(&right);
    return 0;
}

void gate_fake_answers_right(struct bmoe_session *s)
{
    struct gate_live live = {.prompt_bytes = right.prompt_bytes, .n_predict = right.n_predict};
    gate_live_succeed(s, &live);
    gate_live_same(&right, &live);
    gate_live_fini(&live);
}

void gate_fake_log(void *user, enum bmoe_log_level level, const char *line)
{
    (void)user;
    if (level != BMOE_LOG_WARN)
        return;
    gate_fake_said.n_warnings++;
    snprintf(gate_fake_said.last, sizeof gate_fake_said.last, "%s", line);
}

void gate_fake_hush(void)
{
    gate_fake_said = (struct gate_fake_said){0};
}
