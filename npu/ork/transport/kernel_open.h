/* The kernel transports with their system calls as a parameter: what the tests open. */
#ifndef ORK_KERNEL_OPEN_H
#define ORK_KERNEL_OPEN_H

#include "transport/os.h"
#include "transport/transport.h"

/* As ork_vendor_open and ork_mainline_open; os outlives the transport. */
int vendor_open(const struct ork_os *os, struct ork_transport **out, struct ork_error *error);
int mainline_open(const struct ork_os *os, struct ork_transport **out, struct ork_error *error);

#endif
