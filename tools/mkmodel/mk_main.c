/*
 * bmoe-mkmodel: writes synthetic Mixture-of-Experts models as gguf files. Options to plan to types
 * to file; exit 0, 1 when the work failed, 2 when the options are wrong.
 */
#include "mk_arch.h"
#include "mk_options.h"
#include "mk_vocab.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEMPLATE_BYTES = 1 << 20 };

/* Reads a whole text file; the caller frees *text. */
static int read_text(const char *path, char **text, struct bmoe_error *error)
{
    FILE *file = fopen(path, "rb");
    char *data = calloc(1, MAX_TEMPLATE_BYTES);
    size_t n = 0;
    int rc = 0;

    if (file && data)
        n = fread(data, 1, MAX_TEMPLATE_BYTES, file);
    if (!data)
        rc = error_set(error, BMOE_E_MEMORY, BMOE_SCOPE_PROCESS,
                       "Out of memory for the chat template.");
    else if (!file || ferror(file))
        rc = error_set_errno(error, BMOE_E_IO, BMOE_SCOPE_PROCESS, errno, "Cannot read %s", path);
    else if (n == MAX_TEMPLATE_BYTES || memchr(data, 0, n))
        rc = error_set(error, BMOE_E_MISUSE, BMOE_SCOPE_PROCESS,
                       "%s is no text of less than %d bytes.", path, MAX_TEMPLATE_BYTES);
    if (file)
        fclose(file);
    if (rc < 0)
        free(data);
    else
        *text = data;
    return rc;
}

static int print_list(const struct mk_plan *plan, struct bmoe_error *error)
{
    size_t total = 0;

    for (size_t i = 0; i < plan->n_tensors; i++) {
        const struct mk_tensor *tensor = &plan->tensors[i];
        size_t bytes = mk_data_bytes(tensor);

        printf("%-40s %-8s %6lld %6lld %5lld %12zu\n", tensor->name, ggml_type_name(tensor->type),
               (long long)tensor->ne[0], (long long)tensor->ne[1], (long long)tensor->ne[2], bytes);
        total += bytes;
    }
    printf("%zu tensors, %zu bytes\n", plan->n_tensors, total);
    if (fflush(stdout) != 0)
        return error_set_errno(error, BMOE_E_IO, BMOE_SCOPE_PROCESS, errno,
                               "Cannot write the list");
    return 0;
}

static int make(const struct mk_options *options, struct bmoe_error *error)
{
    struct mk_plan plan;
    char *template = NULL;
    const char *type = options->type ? options->type : options->shape.type;
    struct mk_arch_traits traits = mk_arch_traits(options->shape.arch);
    int rc = 0;

    if (options->chat_template)
        rc = read_text(options->chat_template, &template, error);
    if (rc < 0)
        return rc;
    rc = mk_plan_init(&plan, &options->shape);
    plan.tied = options->tied || traits.tied;
    plan.fused = options->fused || traits.fused;
    plan.mtp = options->mtp;
    if (rc == 0)
        rc = mk_vocab_add(&plan, template, error);
    if (rc == 0)
        rc = mk_arch_fill(&plan, error);
    if (rc == 0)
        rc = mk_types_assign(&plan, type, options->rules, options->n_rules, error);
    if (rc == 0)
        rc = options->list ? print_list(&plan, error) : mk_write(&plan, &options->write, error);
    mk_plan_fini(&plan);
    free(template);
    return rc;
}

int main(int argc, char **argv)
{
    static struct mk_options options;
    struct bmoe_error error = {0};
    int rc;

    signal(SIGXFSZ, SIG_IGN); /* a file over the limit is an error of write() */
    rc = mk_options_parse(&options, argc, argv, &error);
    if (rc == 0 && options.help) {
        mk_options_help();
        return fflush(stdout) == 0 ? 0 : 1;
    }
    if (rc == 0)
        rc = make(&options, &error);
    if (rc == 0)
        return 0;
    fprintf(stderr, "bmoe-mkmodel: %s\n", error.text);
    return rc == BMOE_E_MISUSE ? 2 : 1;
}
