/*
 * The parts of userfaultfd's interface that are younger than the kernel headers of Debian 12:
 * UFFDIO_MOVE (Linux 6.8, back-ported by Android). Numbers are the kernel's, fixed for good; each
 * is declared only where <linux/userfaultfd.h> has it not. Used by pager_uffd.c alone.
 */
#ifndef BMOE_PAGER_UFFD_ABI_H
#define BMOE_PAGER_UFFD_ABI_H

#include <linux/types.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

#ifndef UFFD_FEATURE_MOVE
#define UFFD_FEATURE_MOVE (1 << 16)
#endif

#ifndef UFFDIO_MOVE
struct uffdio_move {
    __u64 dst;
    __u64 src;
    __u64 len;
    __u64 mode;
    __s64 move; /* answered: bytes moved, or a negative errno */
};
#define UFFDIO_MOVE _IOWR(UFFDIO, 0x05, struct uffdio_move)
#endif

#endif
