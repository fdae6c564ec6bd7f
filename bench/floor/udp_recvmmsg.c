// The floor for datagrams: each thread receives from its own SO_REUSEPORT socket, as many as wait in one call.
//
//   udp_recvmmsg PORT THREADS
//
// Measures what the kernel charges a server for waking it and for handing it datagrams. Leaves out everything a queue is
// for: nothing is looked at, stored or passed on. The receive buffer is what bbq asks for, so that both lose alike.
//
// Prints "ready" once every socket is bound. On SIGTERM it prints how many came and its CPU time since "ready" as one line of
// JSON, and ends.
#include "common.h"

#include <pthread.h>
#include <signal.h>

enum { THREADS_MAX = 64, DATAGRAMS = 32, DATAGRAM_BYTES = 2048, RECEIVE_BUFFER_BYTES = 4 * 1024 * 1024 };

struct server {
    int socket;
    uint64_t datagrams, bytes;
} __attribute__((aligned(128)));  // counters of two threads never share a cache line

static struct server servers[THREADS_MAX];

static int bind_to(uint16_t port) {
    struct sockaddr_in address = loopback("127.0.0.1", port);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1, bytes = RECEIVE_BUFFER_BYTES;
    if (fd < 0) fail("socket");
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) < 0) fail("SO_REUSEPORT");
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes) < 0) fail("SO_RCVBUF");
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0) fail("bind");
    return fd;
}

static void *serve(void *argument) {
    struct server *server = argument;
    static __thread char buffers[DATAGRAMS][DATAGRAM_BYTES];
    static __thread struct iovec places[DATAGRAMS];
    static __thread struct mmsghdr messages[DATAGRAMS];
    for (int i = 0; i < DATAGRAMS; i++) {
        places[i] = (struct iovec){buffers[i], DATAGRAM_BYTES};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &places[i], .msg_iovlen = 1};
    }
    for (;;) {
        int got = recvmmsg(server->socket, messages, DATAGRAMS, MSG_WAITFORONE, NULL);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) fail("recvmmsg");
        server->datagrams += (uint64_t)got;
        for (int i = 0; i < got; i++) server->bytes += messages[i].msg_len;
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 3) usage("udp_recvmmsg PORT THREADS");
    uint16_t port = port_number(argv[1]);
    int threads = (int)number("THREADS", argv[2], 1, THREADS_MAX);
    sigset_t terminate;
    sigemptyset(&terminate);
    sigaddset(&terminate, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &terminate, NULL);
    for (int i = 0; i < threads; i++) servers[i].socket = bind_to(port);
    for (int i = 0; i < threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, serve, &servers[i]) != 0) fail("pthread_create");
    }
    struct cpu start = cpu_now();
    announce_ready();
    int received;
    sigwait(&terminate, &received);
    uint64_t datagrams = 0, bytes = 0;
    for (int i = 0; i < threads; i++) {
        datagrams += servers[i].datagrams;
        bytes += servers[i].bytes;
    }
    printf("{\"datagrams\": %llu, \"bytes\": %llu, ", (unsigned long long)datagrams, (unsigned long long)bytes);
    print_cpu_since(start);
    printf("}\n");
    return EXIT_SUCCESS;
}
