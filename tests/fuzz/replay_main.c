/*
 * Runs a fuzz harness over files instead of random input: every file named, or lying in a folder
 * named, on the command line is handed to LLVMFuzzerTestOneInput once.
 *
 * Linked into the harnesses where libFuzzer is not (any compiler), so that the corpora are replayed
 * by the ordinary tests. A harness reports a finding by crashing, as under libFuzzer.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path, const struct stat *st)
{
    size_t size = (size_t)st->st_size;
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(size ? size : 1);
    int failed = !file || !data || fread(data, 1, size, file) != size;

    if (failed) {
        fprintf(stderr, "replay: cannot read %s: %s\n", path, strerror(errno));
    } else {
        LLVMFuzzerTestOneInput(data, size);
    }
    free(data);
    if (file) {
        fclose(file);
    }
    return failed ? -1 : 1;
}

/* Returns how many inputs were run, or -1. */
static int replay_path(const char *path)
{
    struct stat st;
    int count = 0;

    if (stat(path, &st) != 0) {
        fprintf(stderr, "replay: %s: %s\n", path, strerror(errno));
        return -1;
    }
    if (!S_ISDIR(st.st_mode)) {
        return replay_file(path, &st);
    }
    DIR *dir = opendir(path);
    if (!dir) {
        fprintf(stderr, "replay: %s: %s\n", path, strerror(errno));
        return -1;
    }
    for (struct dirent *entry; count >= 0 && (entry = readdir(dir)) != NULL;) {
        char *name = NULL;
        if (entry->d_name[0] == '.') {
            continue;
        }
        int n = asprintf(&name, "%s/%s", path, entry->d_name) < 0 ? -1 : replay_path(name);
        count = n < 0 ? -1 : count + n;
        free(name);
    }
    closedir(dir);
    return count;
}

int main(int argc, char **argv)
{
    int total = 0;

    for (int i = 1; i < argc; i++) {
        int n = replay_path(argv[i]);
        if (n < 0) {
            return 1;
        }
        total += n;
    }
    printf("replayed %d inputs\n", total);
    return total > 0 ? 0 : 1;
}
