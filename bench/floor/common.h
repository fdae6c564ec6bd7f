// What every program here needs: giving up with a message, arguments as numbers, addresses, clocks, whole writes.
// No measurement lives here.
#pragma once

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_USAGE = 2, MICROS_PER_SECOND = 1000000 };

static inline void fail(const char *what) {
    perror(what);
    exit(EXIT_FAILURE);
}

static inline void usage(const char *text) {
    fprintf(stderr, "usage: %s\n", text);
    exit(EXIT_USAGE);
}

// A whole number within [least, most]; anything else ends the program with the usage exit code.
static inline uint64_t number(const char *name, const char *text, uint64_t least, uint64_t most) {
    char *end;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    if (errno != 0 || *text == '\0' || *text == '-' || *end != '\0' || value < least || value > most) {
        fprintf(stderr, "%s is \"%s\": give a whole number from %llu to %llu\n", name, text,
                (unsigned long long)least, (unsigned long long)most);
        exit(EXIT_USAGE);
    }
    return value;
}

static inline uint16_t port_number(const char *text) { return (uint16_t)number("PORT", text, 1, 65535); }

// Loopback only: these programs are loads, and are never to be pointed at somebody else's machine.
static inline struct sockaddr_in loopback(const char *host, uint16_t port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1 || (ntohl(address.sin_addr.s_addr) >> 24) != 127) {
        fprintf(stderr, "HOST is \"%s\": give a loopback address, 127.x.y.z\n", host);
        exit(EXIT_USAGE);
    }
    return address;
}

static inline int listen_on(uint16_t port, int reuseport) {
    // As long as Linux's default net.core.somaxconn allows: the clients do not wait to be accepted.
    enum { BACKLOG = 4096 };
    struct sockaddr_in address = loopback("127.0.0.1", port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0) fail("socket");
    if (setsockopt(fd, SOL_SOCKET, reuseport ? SO_REUSEPORT : SO_REUSEADDR, &on, sizeof on) < 0) fail("setsockopt");
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0) fail("bind");
    if (listen(fd, BACKLOG) < 0) fail("listen");
    return fd;
}

static inline int connect_to(const struct sockaddr_in *address) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) fail("socket");
    if (connect(fd, (const struct sockaddr *)address, sizeof *address) < 0) fail("connect");
    return fd;
}

static inline void announce_ready(void) {
    puts("ready");
    fflush(stdout);
}

static inline double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

// User and system time of this process, all threads, since it started.
struct cpu {
    int64_t user_us, system_us;
};

static inline struct cpu cpu_now(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (struct cpu){(int64_t)usage.ru_utime.tv_sec * MICROS_PER_SECOND + usage.ru_utime.tv_usec,
                        (int64_t)usage.ru_stime.tv_sec * MICROS_PER_SECOND + usage.ru_stime.tv_usec};
}

static inline void print_cpu_since(struct cpu start) {
    struct cpu now = cpu_now();
    printf("\"cpu_user_us\": %lld, \"cpu_system_us\": %lld", (long long)(now.user_us - start.user_us),
           (long long)(now.system_us - start.system_us));
}

// Sends all of it on a blocking socket; -1 with errno when the peer is gone.
static inline int send_all(int fd, const char *data, size_t len) {
    while (len > 0) {
        ssize_t sent = send(fd, data, len, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return -1;
        data += sent;
        len -= (size_t)sent;
    }
    return 0;
}

// A message's first bytes are its number, zero padded, so that what arrived can be checked one by one.
enum { NUMBER_DIGITS = 20 };

static inline void put_number(char *at, uint64_t value) {
    for (int i = NUMBER_DIGITS - 1; i >= 0; i--, value /= 10) at[i] = (char)('0' + value % 10);
}
