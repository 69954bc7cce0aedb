/* The file: a head, then entries one after the other, each a head of its own, the image and the
 * scales, padded to ALIGN. A payload is written before its head, so that an interrupted writer
 * leaves a head of zeros or an entry that is cut off by the file's end; both are "no more entries"
 * where nothing follows. Any sum that does not agree is damage, and then the old file is left to
 * those who have it mapped and a new one takes its name. */
#include "pack_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pack_hash.h"

#define ALIGN   64u
#define VERSION 1u /* of the file and of the layout of what is in it */

struct file_head {
    char magic[8];
    uint64_t version;
    uint64_t sum[2]; /* of the two above */
    uint64_t zero[4];
};

struct entry_head {
    struct pack_key key;
    uint64_t image_bytes;
    uint64_t scale_bytes;
    uint64_t payload_sum[2];
    uint64_t head_sum[2]; /* of the members above */
};

_Static_assert(sizeof(struct file_head) == ALIGN && sizeof(struct entry_head) == ALIGN, "aligned");

/* Invariant: index[0 .. n_entries) points to heads within the mapping whose payload lies in it too;
 * end is where the next entry goes. */
struct pack_cache {
    pack_cache_say *say;
    char *path;
    pthread_mutex_t lock; /* guards everything below */
    int fd;               /* -1: nothing is added */
    uint64_t end;
    uint8_t *map;
    size_t map_bytes;
    const struct entry_head **index; /* sorted by key */
    size_t n_entries;
    uint64_t n_found, n_added; /* since opened */
};

static void say(const struct pack_cache *c, const char *what, const char *why)
{
    char sentence[320];

    snprintf(sentence, sizeof(sentence), "%s %s%s%s.", c->path, what, *why ? ": " : "", why);
    c->say(sentence);
}

static uint64_t padded(uint64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static uint64_t entry_bytes(const struct entry_head *e)
{
    return sizeof(*e) + padded(e->image_bytes + e->scale_bytes);
}

struct pack_key pack_cache_key(const void *source, size_t bytes, const uint64_t *how, size_t n)
{
    uint64_t of_how[2];
    struct pack_key key;

    pack_hash(how, n * sizeof(*how), VERSION, of_how);
    pack_hash(source, bytes, of_how[0], key.half);
    key.half[1] ^= of_how[1];
    return key;
}

static void payload_sum(const void *image, size_t image_bytes, const void *scales,
                        size_t scale_bytes, uint64_t out[2])
{
    uint64_t first[2];

    pack_hash(image, image_bytes, 0, first);
    pack_hash(scales, scale_bytes, first[0], out);
    out[1] ^= first[1];
}

/* ---- reading ----------------------------------------------------------------------------- */

static int by_key(const void *a, const void *b)
{
    const struct entry_head *const *x = a;
    const struct entry_head *const *y = b;

    return memcmp(&(*x)->key, &(*y)->key, sizeof(struct pack_key));
}

static bool head_is_right(const struct entry_head *e)
{
    uint64_t sum[2];

    pack_hash(e, offsetof(struct entry_head, head_sum), VERSION, sum);
    return !memcmp(sum, e->head_sum, sizeof(sum));
}

static bool all_zero(const void *p, size_t bytes)
{
    const uint8_t *b = p;

    for (size_t i = 0; i < bytes; i++)
        if (b[i])
            return false;
    return true;
}

static int index_add(struct pack_cache *c, const struct entry_head *e)
{
    const struct entry_head **grown;

    if ((c->n_entries & (c->n_entries - 1)) == 0) { /* at powers of two */
        grown = realloc(c->index, (c->n_entries ? 2 * c->n_entries : 1) * sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        c->index = grown;
    }
    c->index[c->n_entries++] = e;
    return 0;
}

/* 0, -EBADMSG for damage, -ENOMEM. */
static int scan(struct pack_cache *c)
{
    uint64_t at = sizeof(struct file_head);

    while (c->map_bytes - at >= sizeof(struct entry_head)) {
        const struct entry_head *e = (const struct entry_head *)(const void *)(c->map + at);
        const uint64_t left = c->map_bytes - at;

        if (all_zero(e, sizeof(*e)))
            break;
        if (!head_is_right(e) || e->image_bytes > left || e->scale_bytes > left ||
            entry_bytes(e) > left)
            return -EBADMSG;
        if (index_add(c, e) < 0)
            return -ENOMEM;
        at += entry_bytes(e);
    }
    c->end = at;
    if (c->n_entries) /* NULL is no array, not even to sort none of */
        qsort(c->index, c->n_entries, sizeof(*c->index), by_key);
    return 0;
}

static void make_head(struct file_head *head)
{
    memset(head, 0, sizeof(*head));
    memcpy(head->magic, "ORKPACK", 8);
    head->version = VERSION;
    pack_hash(head, offsetof(struct file_head, sum), 0, head->sum);
}

/* 0 also for an empty file; -EBADMSG for one that is not ours, damaged or of another version. */
static int map_file(struct pack_cache *c, int fd)
{
    struct file_head head;
    struct stat st;
    void *map;

    if (fstat(fd, &st) < 0)
        return -errno;
    if (!st.st_size)
        return 0;
    if (st.st_size < (off_t)sizeof(head))
        return -EBADMSG;
    map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return -errno;
    c->map = map;
    c->map_bytes = (size_t)st.st_size;
    make_head(&head);
    return memcmp(map, &head, sizeof(head)) ? -EBADMSG : scan(c);
}

/* ---- writing ----------------------------------------------------------------------------- */

static int write_at(int fd, const void *data, size_t bytes, uint64_t at)
{
    const uint8_t *p = data;

    while (bytes) {
        const ssize_t n = pwrite(fd, p, bytes, (off_t)at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        p += n;
        bytes -= (size_t)n;
        at += (uint64_t)n;
    }
    return 0;
}

/* A new file under the name, locked; entries of the old one stay found. */
static int start_anew(struct pack_cache *c)
{
    struct file_head head;
    int fd, rc;

    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    if (unlink(c->path) < 0 && errno != ENOENT)
        return -errno;
    fd = open(c->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return -errno;
    make_head(&head);
    rc = flock(fd, LOCK_EX | LOCK_NB) < 0 ? -errno : write_at(fd, &head, sizeof(head), 0);
    if (rc < 0) {
        close(fd);
        return rc;
    }
    c->fd = fd;
    c->end = sizeof(head);
    return 0;
}

static void stop_writing(struct pack_cache *c, int rc)
{
    say(c, "is not written any further", strerror(-rc));
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
}

/* Locked. Nothing of the damaged file is used any more. */
static void rebuild(struct pack_cache *c, const char *why)
{
    int rc;

    c->n_entries = 0;
    if (c->fd < 0) { /* another's, or not to be written */
        say(c, "is not used", why);
        return;
    }
    say(c, "is made anew", why);
    rc = start_anew(c);
    if (rc < 0)
        stop_writing(c, rc);
}

void pack_cache_add(struct pack_cache *c, const struct pack_key *key, const void *image,
                    size_t image_bytes, const void *scales, size_t scale_bytes)
{
    struct entry_head e = {.key = *key, .image_bytes = image_bytes, .scale_bytes = scale_bytes};
    uint64_t at;
    int rc;

    payload_sum(image, image_bytes, scales, scale_bytes, e.payload_sum);
    pack_hash(&e, offsetof(struct entry_head, head_sum), VERSION, e.head_sum);
    pthread_mutex_lock(&c->lock);
    if (c->fd >= 0) {
        at = c->end + sizeof(e);
        rc = ftruncate(c->fd, (off_t)(c->end + entry_bytes(&e))) < 0 ? -errno : 0;
        rc = rc < 0 ? rc : write_at(c->fd, image, image_bytes, at);
        rc = rc < 0 ? rc : write_at(c->fd, scales, scale_bytes, at + image_bytes);
        rc = rc < 0 ? rc : write_at(c->fd, &e, sizeof(e), c->end);
        if (rc < 0) {
            if (ftruncate(c->fd, (off_t)c->end) < 0)
                rc = -errno;
            stop_writing(c, rc);
        } else {
            c->end += entry_bytes(&e);
            c->n_added++;
        }
    }
    pthread_mutex_unlock(&c->lock);
}

/* ---- finding ----------------------------------------------------------------------------- */

static const struct entry_head *find(const struct pack_cache *c, const struct pack_key *key)
{
    const struct entry_head wanted = {.key = *key};
    const struct entry_head *one = &wanted;
    const struct entry_head **found;

    if (!c->n_entries)
        return NULL;
    found = bsearch(&one, c->index, c->n_entries, sizeof(*c->index), by_key);
    return found ? *found : NULL;
}

bool pack_cache_find(struct pack_cache *c, const struct pack_key *key, size_t image_bytes,
                     size_t scale_bytes, const void **image, const void **scales)
{
    const struct entry_head *e;
    const uint8_t *payload;
    uint64_t sum[2];
    bool right;

    pthread_mutex_lock(&c->lock);
    e = find(c, key);
    pthread_mutex_unlock(&c->lock);
    if (!e || e->image_bytes != image_bytes || e->scale_bytes != scale_bytes)
        return false;
    payload = (const uint8_t *)(e + 1);
    payload_sum(payload, image_bytes, payload + image_bytes, scale_bytes, sum);
    right = !memcmp(sum, e->payload_sum, sizeof(sum));
    if (!right) {
        pthread_mutex_lock(&c->lock);
        if (c->n_entries) /* the first who sees it */
            rebuild(c, "it is damaged");
        pthread_mutex_unlock(&c->lock);
        return false;
    }
    pthread_mutex_lock(&c->lock);
    c->n_found++;
    pthread_mutex_unlock(&c->lock);
    *image = payload;
    *scales = payload + image_bytes;
    return true;
}

void pack_cache_counts(struct pack_cache *c, uint64_t *n_found, uint64_t *n_added)
{
    pthread_mutex_lock(&c->lock);
    *n_found = c->n_found;
    *n_added = c->n_added;
    pthread_mutex_unlock(&c->lock);
}

/* ---- life -------------------------------------------------------------------------------- */

/* Read and, where nobody else does, written. */
static int start(struct pack_cache *c)
{
    int rc;

    c->fd = open(c->path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (c->fd < 0 && (errno == EACCES || errno == EROFS)) {
        const int fd = open(c->path, O_RDONLY | O_CLOEXEC);

        rc = fd < 0 ? -errno : map_file(c, fd);
        if (fd >= 0)
            close(fd);
        return rc;
    }
    if (c->fd < 0)
        return -errno;
    rc = map_file(c, c->fd);
    if (flock(c->fd, LOCK_EX | LOCK_NB) < 0) {
        say(c, "is being written by another process and only read here", "");
        close(c->fd);
        c->fd = -1;
        return rc == -EBADMSG ? 0 : rc;
    }
    if (rc == -EBADMSG) {
        rebuild(c, "it is damaged or of another version");
        return 0;
    }
    return rc < 0 || c->map ? rc : start_anew(c);
}

int pack_cache_open(const char *path, pack_cache_say *speak, struct pack_cache **out)
{
    struct pack_cache *c = calloc(1, sizeof(*c));
    int rc;

    if (!c)
        return -ENOMEM;
    pthread_mutex_init(&c->lock, NULL);
    c->say = speak;
    c->fd = -1;
    c->path = strdup(path);
    rc = c->path ? start(c) : -ENOMEM;
    if (rc < 0) {
        if (c->path)
            say(c, "is not used", strerror(-rc));
        pack_cache_close(c);
        return rc;
    }
    *out = c;
    return 0;
}

void pack_cache_close(struct pack_cache *c)
{
    if (!c)
        return;
    if (c->map)
        munmap(c->map, c->map_bytes);
    if (c->fd >= 0)
        close(c->fd);
    pthread_mutex_destroy(&c->lock);
    free(c->index);
    free(c->path);
    free(c);
}
