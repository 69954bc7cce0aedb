/*
 * The error of bmoe-mkmodel: one sentence that names the thing and the way out. Functions that can
 * fail return 0 or a negative errno value and fill the sentence; -EINVAL means that the options are
 * wrong (exit 2), anything else that the work failed (exit 1).
 */
#ifndef MK_ERROR_H
#define MK_ERROR_H

struct mk_error {
    int code; /* 0 or a negative errno value */
    char text[320];
};

/* Fills *error and returns code, so that a caller can write `return mk_error_set(...)`. */
int mk_error_set(struct mk_error *error, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
