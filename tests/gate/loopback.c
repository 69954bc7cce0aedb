/* A free port is found by binding one; until the child listens there, connecting is tried again. */
#include "loopback.h"

#include "device/backends_dir.h"

#include <arpa/inet.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sockaddr_in local(unsigned port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return a;
}

static unsigned free_port(void)
{
    struct sockaddr_in a = local(0);
    socklen_t n = sizeof a;
    unsigned port = 0;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0 &&
        getsockname(fd, (struct sockaddr *)&a, &n) == 0)
        port = ntohs(a.sin_port);
    if (fd >= 0)
        close(fd);
    return port;
}

static bool listens(unsigned port)
{
    struct sockaddr_in a = local(port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bool yes = fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0;
    if (fd >= 0)
        close(fd);
    return yes;
}

/* Waits for the child to listen; false when it ended. */
static bool await(pid_t child, unsigned port)
{
    for (int i = 0; i < 3000; i++) {
        int status;
        if (listens(port))
            return true;
        if (waitpid(child, &status, WNOHANG) == child) {
            fprintf(stderr, "the loopback server ended (wait status %d)\n", status);
            return false;
        }
        usleep(10000);
    }
    return false;
}

static pid_t start_server(const char *dir, unsigned port, unsigned n_threads)
{
    char path[PATH_MAX], number[16], threads[16];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 32);
    snprintf(number, sizeof number, "%u", port);
    snprintf(threads, sizeof threads, "%u", n_threads);
    if (n <= 0)
        return -1;
    path[n] = '\0';
    const char *here = getenv("LOOPBACK_SERVER");
    if (!here) {
        strcpy(strrchr(path, '/') + 1, "loopback_server");
        here = path;
    }
    pid_t pid = fork();
    if (pid == 0) {
        if (!freopen("/dev/null", "w", stdout))
            _exit(1);
        if (!getenv("LOOPBACK_VERBOSE") && !freopen("/dev/null", "w", stderr))
            _exit(1);
        execl(here, here, dir, number, threads, (char *)NULL);
        _exit(1);
    }
    return pid;
}

ggml_backend_dev_t loopback_device(unsigned n_threads)
{
    char room[PATH_MAX], path[PATH_MAX + 32], endpoint[64];
    const char *dir = backends_dir_choose(NULL, room, sizeof room);
    unsigned port = free_port();
    snprintf(path, sizeof path, "%s/libggml-rpc.so", dir);
    if (access(path, R_OK) != 0 || !port) {
        fprintf(stderr, "there is no RPC backend of ggml: %s\n", path);
        return NULL;
    }
    pid_t child = start_server(dir, port, n_threads);
    if (child < 0 || !await(child, port))
        return NULL;
    ggml_backend_reg_t rpc = ggml_backend_load(path);
    void *symbol =
        rpc ? ggml_backend_reg_get_proc_address(rpc, "ggml_backend_rpc_add_server") : NULL;
    ggml_backend_reg_t (*add)(const char *) = NULL;
    memcpy(&add, &symbol, sizeof add);
    snprintf(endpoint, sizeof endpoint, "127.0.0.1:%u", port);
    ggml_backend_reg_t server = add ? add(endpoint) : NULL;
    return server && ggml_backend_reg_dev_count(server) ? ggml_backend_reg_dev_get(server, 0)
                                                        : NULL;
}
