/* Reads lines from standard input; 0 when there is one and each is a JSON object (and has every
 * key named as an argument). What a script that reads ork-info --json relies on. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static int check(const char *line, int n_keys, char **keys)
{
    json_error_t error;
    json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, &error);
    int rc = json_is_object(object) ? 0 : 1;

    if (rc)
        fprintf(stderr, "not a JSON object: %s", line);
    for (int i = 0; !rc && i < n_keys; i++) {
        rc = json_object_get(object, keys[i]) ? 0 : 1;
        if (rc)
            fprintf(stderr, "no %s in %s", keys[i], line);
    }
    json_decref(object);
    return rc;
}

int main(int argc, char **argv)
{
    char *line = NULL;
    size_t room = 0;
    int lines = 0, rc = 0;

    for (; !rc && getline(&line, &room, stdin) >= 0; lines++)
        rc = check(line, argc - 1, argv + 1);
    free(line);
    return rc || !lines;
}
