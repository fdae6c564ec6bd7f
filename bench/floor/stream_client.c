// The load for stream_durable: one connection, BYTES_TOTAL bytes in sends of PIECE bytes, then a wait for the answer.
//
//   stream_client HOST PORT BYTES_TOTAL PIECE
//
// "seconds" lasts until the server has answered that all of it is synced. The bytes are not messages and are the same
// in every piece: this one makes a load as cheaply as it can. Prints one line of JSON.
#include "common.h"

enum { PIECE_BYTES_MAX = 16 << 20 };
static const uint64_t BYTES_TOTAL_MAX = 1ull << 36;

int main(int argc, char **argv) {
    if (argc != 5) usage("stream_client HOST PORT BYTES_TOTAL PIECE");
    struct sockaddr_in server = loopback(argv[1], port_number(argv[2]));
    uint64_t total = number("BYTES_TOTAL", argv[3], 1, BYTES_TOTAL_MAX);
    size_t piece_bytes = (size_t)number("PIECE", argv[4], 1, PIECE_BYTES_MAX);
    char *piece = malloc(piece_bytes);
    if (piece == NULL) fail("malloc");
    for (size_t i = 0; i < piece_bytes; i++) piece[i] = (char)('a' + i % 26);

    struct cpu cpu_start = cpu_now();
    double start = seconds_now();
    int fd = connect_to(&server);
    for (uint64_t left = total; left > 0;) {
        size_t len = left < piece_bytes ? (size_t)left : piece_bytes;
        if (send_all(fd, piece, len) < 0) fail("send");
        left -= len;
    }
    if (shutdown(fd, SHUT_WR) < 0) fail("shutdown");
    uint64_t stored = 0;
    if (recv(fd, &stored, sizeof stored, MSG_WAITALL) != sizeof stored) fail("no answer");

    printf("{\"sent\": %llu, \"stored\": %llu, \"seconds\": %.6f, ", (unsigned long long)total,
           (unsigned long long)stored, seconds_now() - start);
    print_cpu_since(cpu_start);
    printf("}\n");
    return stored == total ? EXIT_SUCCESS : EXIT_FAILURE;
}
