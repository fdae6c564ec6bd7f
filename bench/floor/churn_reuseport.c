// The floor for one connection per message: each thread accepts, reads to the end, closes. Blocking calls only.
//
//   churn_reuseport PORT THREADS [reuseport|shared]
//       reuseport (default): every thread has its own SO_REUSEPORT socket; shared: all accept from one
//
// Measures what the kernel charges a server for accepting, reading and closing, and for waking its threads.
// Leaves out everything a queue is for: nothing is stored, checked, acknowledged or passed on; one slow client would
// hold up a whole thread; no limit on time or size.
//
// Prints "ready" once every socket listens. On SIGTERM it serves what is queued already, prints its totals and its CPU
// time since "ready" as one line of JSON, and ends.
#include "common.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

enum { THREADS_MAX = 64, READ_BYTES = 64 * 1024 };

struct server {
    pthread_t thread;
    int listener;
    uint64_t messages, bytes, failed;
    atomic_int ended;
} __attribute__((aligned(128)));  // counters of two threads never share a cache line

static struct server servers[THREADS_MAX];
static atomic_int stopping;

static void read_to_end(struct server *server, int fd, char *buffer) {
    uint64_t total = 0;
    for (;;) {
        ssize_t got = recv(fd, buffer, READ_BYTES, 0);
        if (got > 0) {
            total += (uint64_t)got;
        } else if (got == 0) {
            server->messages++;
            server->bytes += total;
            return;
        } else if (errno != EINTR) {
            server->failed++;
            return;
        }
    }
}

static void *serve(void *argument) {
    struct server *server = argument;
    char *buffer = malloc(READ_BYTES);
    if (buffer == NULL) fail("malloc");
    int draining = 0;
    for (;;) {
        if (!draining && atomic_load_explicit(&stopping, memory_order_relaxed)) {
            // From here on accept answers EAGAIN when the queue is empty. A connection never becomes lost by this.
            if (fcntl(server->listener, F_SETFL, O_NONBLOCK) < 0) fail("fcntl");
            draining = 1;
        }
        int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0) {
            read_to_end(server, fd, buffer);
            close(fd);
        } else if (errno == EAGAIN) {
            break;
        } else if (errno != EINTR && errno != ECONNABORTED) {
            fail("accept");
        }
    }
    free(buffer);
    atomic_store(&server->ended, 1);
    return NULL;
}

static void wake(int signal) { (void)signal; }

int main(int argc, char **argv) {
    if (argc < 3 || argc > 4) usage("churn_reuseport PORT THREADS [reuseport|shared]");
    uint16_t port = port_number(argv[1]);
    int threads = (int)number("THREADS", argv[2], 1, THREADS_MAX);
    const char *mode = argc == 4 ? argv[3] : "reuseport";
    int shared = strcmp(mode, "shared") == 0;
    if (!shared && strcmp(mode, "reuseport") != 0) usage("churn_reuseport PORT THREADS [reuseport|shared]");

    // SIGUSR1 only interrupts a blocking accept; SIGTERM is waited for below, by no handler.
    struct sigaction interrupt = {.sa_handler = wake};
    sigaction(SIGUSR1, &interrupt, NULL);
    sigset_t terminate;
    sigemptyset(&terminate);
    sigaddset(&terminate, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &terminate, NULL);

    for (int i = 0; i < threads; i++)
        servers[i].listener = shared && i > 0 ? servers[0].listener : listen_on(port, !shared);
    for (int i = 0; i < threads; i++)
        if (pthread_create(&servers[i].thread, NULL, serve, &servers[i]) != 0) fail("pthread_create");
    struct cpu start = cpu_now();
    announce_ready();

    int received;
    sigwait(&terminate, &received);
    atomic_store(&stopping, 1);
    for (int i = 0; i < threads; i++) {
        // Again until it ends: the first signal may fall between its look at `stopping` and its accept.
        while (!atomic_load(&servers[i].ended)) {
            pthread_kill(servers[i].thread, SIGUSR1);
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        }
        pthread_join(servers[i].thread, NULL);
    }

    uint64_t messages = 0, bytes = 0, failed = 0;
    for (int i = 0; i < threads; i++) {
        messages += servers[i].messages;
        bytes += servers[i].bytes;
        failed += servers[i].failed;
    }
    printf("{\"mode\": \"%s\", \"messages\": %llu, \"bytes\": %llu, \"failed\": %llu, ", mode,
           (unsigned long long)messages, (unsigned long long)bytes, (unsigned long long)failed);
    print_cpu_since(start);
    printf("}\n");
    return EXIT_SUCCESS;
}
