// The load of datagrams: numbered, from several senders, at a rate.
//
//   udp_client HOST PORT SENDERS DATAGRAM_BYTES COUNT RATE
//       SENDERS sockets, each with its own port, take turns; RATE datagrams per second in all, sent 16 at a time, 0: as fast
//       as it goes
//
// Every datagram has its own number from 0 to COUNT - 1, so lines_check can tell what is missing from a file of them. A
// sender's kernel never refuses loopback for want of room at the receiver: what is lost is lost there. One thread. Prints
// one line of JSON.
#include "common.h"

enum { SENDERS_MAX = 256, DATAGRAM_BYTES_MAX = 64 * 1024, BURST = 16 };
static const uint64_t COUNT_MAX = 1000000000;

// Waits until `due` by sleeping, and looking at the clock in the end.
static void wait_until(double due) {
    static const double SLEEP_ENDS_BEFORE = 100e-6;
    for (double left; (left = due - seconds_now()) > 0;)
        if (left > SLEEP_ENDS_BEFORE)
            nanosleep(&(struct timespec){.tv_nsec = (long)((left - SLEEP_ENDS_BEFORE) * 1e9)}, NULL);
}

int main(int argc, char **argv) {
    if (argc != 7) usage("udp_client HOST PORT SENDERS DATAGRAM_BYTES COUNT RATE");
    struct sockaddr_in server = loopback(argv[1], port_number(argv[2]));
    size_t senders = (size_t)number("SENDERS", argv[3], 1, SENDERS_MAX);
    size_t bytes = (size_t)number("DATAGRAM_BYTES", argv[4], NUMBER_DIGITS, DATAGRAM_BYTES_MAX);
    uint64_t count = number("COUNT", argv[5], 1, COUNT_MAX), rate = number("RATE", argv[6], 0, COUNT_MAX);

    static int sockets[SENDERS_MAX];
    for (size_t i = 0; i < senders; i++) {
        sockets[i] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (sockets[i] < 0) fail("socket");
        if (connect(sockets[i], (struct sockaddr *)&server, sizeof server) < 0) fail("connect");
    }
    char *buffer = malloc(bytes * BURST);
    if (buffer == NULL) fail("malloc");
    memset(buffer, 'x', bytes * BURST);
    struct iovec places[BURST];
    struct mmsghdr messages[BURST] = {0};
    for (size_t i = 0; i < BURST; i++) {
        places[i] = (struct iovec){buffer + i * bytes, bytes};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &places[i], .msg_iovlen = 1};
    }

    struct cpu cpu_start = cpu_now();
    double start = seconds_now();
    uint64_t next = 0;
    for (size_t turn = 0; next < count; turn++) {
        if (rate > 0) wait_until(start + (double)next / (double)rate);
        unsigned now = count - next < BURST ? (unsigned)(count - next) : BURST;
        for (unsigned i = 0; i < now; i++) put_number(buffer + i * bytes, next + i);
        int sent = sendmmsg(sockets[turn % senders], messages, now, 0);
        if (sent < 0 && errno != EINTR) fail("sendmmsg");
        if (sent > 0) next += (uint64_t)sent;
    }
    printf("{\"sent\": %llu, \"seconds\": %.6f, ", (unsigned long long)count, seconds_now() - start);
    print_cpu_since(cpu_start);
    printf("}\n");
    return EXIT_SUCCESS;
}
