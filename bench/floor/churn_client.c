// The load for one connection per message: connect, send one message, close at once, from several threads.
//
//   churn_client HOST PORT THREADS MESSAGE_BYTES SECONDS [COUNT]
//       ends after SECONDS, or after COUNT connections if that comes first
//
// Every connection comes from another address of 127.0.0.0/8, with IP_BIND_ADDRESS_NO_PORT: from one address the
// kernel's search for a free port soon costs more than everything measured, and the load generator is the result.
//
// A message is its number and padding, without a newline. "sent" says the kernel took it, not that a server stored it:
// compare it with what the server delivered. Leaves out latency. Prints one line of JSON.
#include "common.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    THREADS_MAX = 64,
    MESSAGE_BYTES_MAX = 1 << 20,
    SECONDS_MAX = 60,
    CONNECT_SECONDS_MAX = 5,       // a connection that takes longer has failed
    CONNECTIONS_MAX = 100000000,
};

struct client {
    pthread_t thread;
    uint64_t sent, failed;
    int last_error;
} __attribute__((aligned(128)));  // counters of two threads never share a cache line

static struct client clients[THREADS_MAX];
static struct sockaddr_in server;
static size_t message_bytes;
static double deadline;
static uint64_t count = CONNECTIONS_MAX;
static atomic_uint_fast64_t next_message;

// 127.1.0.1 to 127.254.255.254, never .0 or .255 at the end.
static struct sockaddr_in source_address(uint64_t message) {
    uint32_t last = 1 + (uint32_t)(message % 254), third = (uint32_t)(message / 254 % 256);
    uint32_t second = 1 + (uint32_t)(message / 254 / 256 % 254);
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_addr.s_addr = htonl(127u << 24 | second << 16 | third << 8 | last)};
}

static int push(const char *message, const struct sockaddr_in *source) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0) return -1;
    struct timeval limit = {.tv_sec = CONNECT_SECONDS_MAX};  // SO_SNDTIMEO bounds connect as well
    int result = setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on) < 0
              || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) < 0
              || bind(fd, (const struct sockaddr *)source, sizeof *source) < 0
              || connect(fd, (struct sockaddr *)&server, sizeof server) < 0
              || send_all(fd, message, message_bytes) < 0 ? -1 : 0;
    int error = errno;
    close(fd);
    errno = error;
    return result;
}

static void *run(void *argument) {
    struct client *client = argument;
    char *message = malloc(message_bytes);
    if (message == NULL) fail("malloc");
    memset(message, 'x', message_bytes);
    while (seconds_now() < deadline) {
        uint64_t mine = atomic_fetch_add_explicit(&next_message, 1, memory_order_relaxed);
        if (mine >= count) break;
        put_number(message, mine);
        struct sockaddr_in source = source_address(mine);
        if (push(message, &source) == 0) {
            client->sent++;
        } else {
            client->failed++;
            client->last_error = errno;
        }
    }
    free(message);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 6 || argc > 7) usage("churn_client HOST PORT THREADS MESSAGE_BYTES SECONDS [COUNT]");
    server = loopback(argv[1], port_number(argv[2]));
    int threads = (int)number("THREADS", argv[3], 1, THREADS_MAX);
    message_bytes = (size_t)number("MESSAGE_BYTES", argv[4], NUMBER_DIGITS, MESSAGE_BYTES_MAX);
    double seconds = (double)number("SECONDS", argv[5], 1, SECONDS_MAX);
    if (argc == 7) count = number("COUNT", argv[6], 1, CONNECTIONS_MAX);

    struct cpu cpu_start = cpu_now();
    double start = seconds_now();
    deadline = start + seconds;
    for (int i = 0; i < threads; i++)
        if (pthread_create(&clients[i].thread, NULL, run, &clients[i]) != 0) fail("pthread_create");
    uint64_t sent = 0, failed = 0;
    int last_error = 0;
    for (int i = 0; i < threads; i++) {
        pthread_join(clients[i].thread, NULL);
        sent += clients[i].sent;
        failed += clients[i].failed;
        if (clients[i].last_error != 0) last_error = clients[i].last_error;
    }
    printf("{\"sent\": %llu, \"failed\": %llu, \"last_error\": \"%s\", \"seconds\": %.6f, ", (unsigned long long)sent,
           (unsigned long long)failed, last_error == 0 ? "" : strerror(last_error), seconds_now() - start);
    print_cpu_since(cpu_start);
    printf("}\n");
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
