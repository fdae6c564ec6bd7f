// ZeroMQ PUSH/PULL, as the peer of a stream of messages that is not stored.
//
//   zeromq PORT pull                               binds, and counts what comes
//   zeromq PORT push MESSAGE_BYTES MILLISECONDS       connects, and sends as fast as it goes
//
// Default high-water marks: a sender waits when 1,000 messages do. `pull` prints "ready" once it listens; on SIGTERM it takes
// what is there and prints its totals as one line of JSON, as `push` does when its time is over and all is handed to the kernel.
#include "../floor/common.h"

#include <signal.h>
#include <stdatomic.h>
#include <zmq.h>

enum { MESSAGE_BYTES_MAX = 1 << 20, MILLISECONDS_MAX = 3600000, LOOK_MS = 200, HOST_BYTES = 32 };

static atomic_int stopping;

static void stop(int signal) {
    (void)signal;
    atomic_store(&stopping, 1);
}

static void check(int result, const char *what) {
    if (result < 0) {
        fprintf(stderr, "%s: %s\n", what, zmq_strerror(zmq_errno()));
        exit(EXIT_FAILURE);
    }
}

static void report(const char *word, uint64_t messages, double seconds, struct cpu start) {
    printf("{\"%s\": %llu, \"seconds\": %.6f, ", word, (unsigned long long)messages, seconds);
    print_cpu_since(start);
    printf("}\n");
}

static void pull(void *socket, const char *address, char *buffer) {
    struct sigaction action = {.sa_handler = stop};
    sigaction(SIGTERM, &action, NULL);
    int look = LOOK_MS;
    check(zmq_setsockopt(socket, ZMQ_RCVTIMEO, &look, sizeof look), "ZMQ_RCVTIMEO");
    check(zmq_bind(socket, address), "bind");
    announce_ready();
    struct cpu start = cpu_now();
    double began = seconds_now();
    uint64_t messages = 0;
    for (;;) {
        if (zmq_recv(socket, buffer, MESSAGE_BYTES_MAX, 0) >= 0) {
            messages++;
        } else if (zmq_errno() == EAGAIN) {
            if (atomic_load(&stopping)) break;  // only when nothing is left
        } else if (zmq_errno() != EINTR) {
            check(-1, "recv");
        }
    }
    report("messages", messages, seconds_now() - began, start);
}

static void push(void *context, void *socket, const char *address, char *buffer, size_t bytes, double seconds) {
    memset(buffer, 'x', bytes);
    check(zmq_connect(socket, address), "connect");
    struct cpu start = cpu_now();
    double began = seconds_now(), end = began + seconds;
    uint64_t sent = 0;
    while (sent % 256 != 0 || seconds_now() < end) {
        if (zmq_send(socket, buffer, bytes, 0) >= 0) sent++;
        else if (zmq_errno() != EINTR) check(-1, "send");
    }
    zmq_close(socket);
    zmq_ctx_term(context);  // returns when everything is handed over
    report("sent", sent, seconds_now() - began, start);
}

int main(int argc, char **argv) {
    int is_pull = argc == 3 && strcmp(argv[2], "pull") == 0, is_push = argc == 5 && strcmp(argv[2], "push") == 0;
    if (!is_pull && !is_push) usage("zeromq PORT pull | zeromq PORT push MESSAGE_BYTES MILLISECONDS");
    char address[HOST_BYTES];
    snprintf(address, sizeof address, "tcp://127.0.0.1:%u", port_number(argv[1]));
    char *buffer = malloc(MESSAGE_BYTES_MAX);
    void *context = zmq_ctx_new();
    void *socket = context == NULL ? NULL : zmq_socket(context, is_pull ? ZMQ_PULL : ZMQ_PUSH);
    if (buffer == NULL || socket == NULL) fail("no memory");
    if (is_pull) {
        pull(socket, address, buffer);
    } else {
        size_t bytes = (size_t)number("MESSAGE_BYTES", argv[3], 1, MESSAGE_BYTES_MAX);
        push(context, socket, address, buffer, bytes, (double)number("MILLISECONDS", argv[4], 1, MILLISECONDS_MAX) / 1000);
    }
    return EXIT_SUCCESS;
}
