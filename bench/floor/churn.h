// What the servers of one connection per message share: their threads, their end, their totals.
//
// A server program gives `serve`, which a thread runs for its own SO_REUSEPORT socket until `stop_fd` becomes readable,
// and then until nothing is queued and nothing is open.
#pragma once

#include "common.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

enum { THREADS_MAX = 64, READ_BYTES = 64 * 1024 };

struct server {
    pthread_t thread;
    int listener;
    int stop_fd;  // readable from the stop on, never read
    uint64_t messages, bytes, failed;
    uint64_t waits;  // system calls that may wait
} __attribute__((aligned(128)));  // counters of two threads never share a cache line

static struct server servers[THREADS_MAX];

static void *serve(void *server);

// Whether the connection came to its end.
static int read_what_is_there(struct server *server, int fd, char *buffer) {
    for (;;) {
        ssize_t got = recv(fd, buffer, READ_BYTES, 0);
        if (got > 0) {
            server->bytes += (uint64_t)got;
        } else if (got == 0) {
            server->messages++;
            return 1;
        } else if (errno == EAGAIN) {
            return 0;
        } else if (errno != EINTR) {
            server->failed++;
            return 1;
        }
    }
}

// Runs `threads` servers from "ready" to SIGTERM, and prints their totals with `mode` as one line of JSON.
static void run_servers(uint16_t port, int threads, const char *mode) {
    sigset_t terminate;
    sigemptyset(&terminate);
    sigaddset(&terminate, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &terminate, NULL);
    int stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (stop < 0) fail("eventfd");
    for (int i = 0; i < threads; i++) {
        servers[i].stop_fd = stop;
        servers[i].listener = listen_on(port, 1);
    }
    for (int i = 0; i < threads; i++)
        if (pthread_create(&servers[i].thread, NULL, serve, &servers[i]) != 0) fail("pthread_create");
    struct cpu start = cpu_now();
    announce_ready();

    int received;
    sigwait(&terminate, &received);
    if (eventfd_write(stop, 1) < 0) fail("eventfd");
    struct server sum = {0};
    for (int i = 0; i < threads; i++) {
        pthread_join(servers[i].thread, NULL);
        sum.messages += servers[i].messages;
        sum.bytes += servers[i].bytes;
        sum.failed += servers[i].failed;
        sum.waits += servers[i].waits;
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("{\"mode\": \"%s\", \"messages\": %llu, \"bytes\": %llu, \"failed\": %llu, \"waits\": %llu, ", mode,
           (unsigned long long)sum.messages, (unsigned long long)sum.bytes, (unsigned long long)sum.failed,
           (unsigned long long)sum.waits);
    printf("\"switches\": %ld, ", usage.ru_nvcsw + usage.ru_nivcsw);
    print_cpu_since(start);
    printf("}\n");
}
