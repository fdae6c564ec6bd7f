// The load of newline-separated messages over TCP, for when loggen itself is the limit.
//
//   lines_client HOST PORT CONNECTIONS LINE_BYTES COUNT [buffered|per-line]
//       LINE_BYTES with the newline; COUNT lines in all, shared evenly; buffered (default): whole lines, up to 64 KiB
//       in one send; per-line: one send for each line, as a program does that logs as it goes
//
// Every line has its own number from 0 to COUNT - 1, so lines_check can tell what is missing and what came twice. One
// thread per connection. "seconds" ends when the kernel has taken everything, not when a server has stored it. Leaves
// out syslog's header, rates and latency. Prints one line of JSON.
#include "common.h"

#include <pthread.h>

enum {
    CONNECTIONS_MAX = 256,
    LINE_BYTES_MAX = 64 * 1024,
    SEND_BYTES = 64 * 1024,
};
static const uint64_t COUNT_MAX = 1000000000;

struct client {
    pthread_t thread;
    uint64_t first, count;
    int failed;
};

static struct client clients[CONNECTIONS_MAX];
static struct sockaddr_in server;
static size_t line_bytes, lines_per_send;

// Writes the number after the one at `from`. Counting in digits is ten times cheaper than dividing for each line.
static void put_next_number(char *at, const char *from) {
    memcpy(at, from, NUMBER_DIGITS);
    int i = NUMBER_DIGITS - 1;
    for (; at[i] == '9'; i--) at[i] = '0';
    at[i]++;
}

static void *run(void *argument) {
    struct client *client = argument;
    char *lines = malloc(line_bytes * lines_per_send), last[NUMBER_DIGITS];
    if (lines == NULL) fail("malloc");
    memset(lines, 'x', line_bytes * lines_per_send);
    for (size_t i = 1; i <= lines_per_send; i++) lines[i * line_bytes - 1] = '\n';

    int fd = connect_to(&server);
    put_number(last, client->first);
    for (uint64_t left = client->count; left > 0 && !client->failed;) {
        size_t now = left < lines_per_send ? (size_t)left : lines_per_send;
        if (left == client->count)
            memcpy(lines, last, NUMBER_DIGITS);
        else
            put_next_number(lines, last);
        for (size_t i = 1; i < now; i++) put_next_number(lines + i * line_bytes, lines + (i - 1) * line_bytes);
        memcpy(last, lines + (now - 1) * line_bytes, NUMBER_DIGITS);
        if (send_all(fd, lines, now * line_bytes) < 0) client->failed = errno;
        left -= now;
    }
    close(fd);
    free(lines);
    return NULL;
}

int main(int argc, char **argv) {
    static const char text[] = "lines_client HOST PORT CONNECTIONS LINE_BYTES COUNT [buffered|per-line]";
    if (argc < 6 || argc > 7) usage(text);
    server = loopback(argv[1], port_number(argv[2]));
    uint64_t connections = number("CONNECTIONS", argv[3], 1, CONNECTIONS_MAX);
    line_bytes = (size_t)number("LINE_BYTES", argv[4], NUMBER_DIGITS + 1, LINE_BYTES_MAX);
    uint64_t count = number("COUNT", argv[5], connections, COUNT_MAX);
    const char *mode = argc == 7 ? argv[6] : "buffered";
    if (strcmp(mode, "buffered") == 0)
        lines_per_send = SEND_BYTES / line_bytes;
    else if (strcmp(mode, "per-line") == 0)
        lines_per_send = 1;
    else
        usage(text);

    struct cpu cpu_start = cpu_now();
    double start = seconds_now();
    for (uint64_t i = 0; i < connections; i++) {
        clients[i].first = count * i / connections;
        clients[i].count = count * (i + 1) / connections - clients[i].first;
        if (pthread_create(&clients[i].thread, NULL, run, &clients[i]) != 0) fail("pthread_create");
    }
    int error = 0;
    for (uint64_t i = 0; i < connections; i++) {
        pthread_join(clients[i].thread, NULL);
        if (clients[i].failed != 0) error = clients[i].failed;
    }
    if (error != 0) {
        errno = error;
        fail("send");
    }
    printf("{\"sent\": %llu, \"seconds\": %.6f, ", (unsigned long long)count, seconds_now() - start);
    print_cpu_since(cpu_start);
    printf("}\n");
    return EXIT_SUCCESS;
}
