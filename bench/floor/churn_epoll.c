// The floor for one connection per message with an event loop: each thread waits in epoll, accepts a batch without
// blocking, and reads each connection at once; only one that would block is added to the epoll.
//
//   churn_epoll PORT THREADS [PAUSE_US]
//       PAUSE_US: sleep so long after each turn that left the queue empty, so that connections collect
//
// What bbq-listen does, without what a queue is for (see churn_reuseport.c, which blocks instead).
//
// Prints "ready" once every socket listens. On SIGTERM it serves what is queued and open, prints its totals and its CPU
// time since "ready" as one line of JSON, and ends. "waits" counts the epoll_wait.
#include "churn.h"

#include <sys/epoll.h>

enum { ACCEPTS_PER_TURN_MAX = 64, EVENTS_MAX = 64 };

static uint64_t pause_us;

static void watch(int epoll, int fd) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.fd = fd};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0) fail("epoll_ctl");
}

// Accepts a batch; how many connections of it stay open, and in `drained` whether it came to the end of the queue.
static int accept_batch(struct server *server, int epoll, char *buffer, int *drained) {
    int open = 0;
    for (int i = 0; i < ACCEPTS_PER_TURN_MAX; i++) {
        int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            if (read_what_is_there(server, fd, buffer)) {
                close(fd);
            } else {
                watch(epoll, fd);
                open++;
            }
        } else if (errno == EAGAIN) {
            *drained = 1;
            return open;
        } else if (errno != EINTR && errno != ECONNABORTED) {
            fail("accept");
        }
    }
    return open;
}

static void *serve(void *argument) {
    struct server *server = argument;
    char *buffer = malloc(READ_BYTES);
    int epoll = epoll_create1(EPOLL_CLOEXEC), open = 0, stopping = 0;
    if (buffer == NULL || epoll < 0) fail("epoll_create1");
    if (fcntl(server->listener, F_SETFL, O_NONBLOCK) < 0) fail("fcntl");
    watch(epoll, server->listener);
    watch(epoll, server->stop_fd);
    for (int drained = 0; !(stopping && drained && open == 0);) {
        struct epoll_event events[EVENTS_MAX];
        int found = epoll_wait(epoll, events, EVENTS_MAX, -1);
        server->waits++;
        if (found < 0 && errno != EINTR) fail("epoll_wait");
        drained = 0;
        for (int i = 0; i < found; i++) {
            int fd = events[i].data.fd;
            if (fd == server->stop_fd) {
                stopping = 1;
            } else if (fd == server->listener) {
                open += accept_batch(server, epoll, buffer, &drained);
            } else if (read_what_is_there(server, fd, buffer)) {
                close(fd);
                open--;
            }
        }
        if (stopping) open += accept_batch(server, epoll, buffer, &drained);
        else if (pause_us > 0 && drained) nanosleep(&(struct timespec){.tv_nsec = (long)pause_us * 1000}, NULL);
    }
    close(epoll);
    free(buffer);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 3 || argc > 4) usage("churn_epoll PORT THREADS [PAUSE_US]");
    uint16_t port = port_number(argv[1]);
    int threads = (int)number("THREADS", argv[2], 1, THREADS_MAX);
    if (argc == 4) pause_us = number("PAUSE_US", argv[3], 0, MICROS_PER_SECOND - 1);
    run_servers(port, threads, "epoll");
    return EXIT_SUCCESS;
}
