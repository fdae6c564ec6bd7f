// The floor for a stream of messages made durable: receive, checksum, write, sync.
//
//   stream_durable PORT FILE
//
// One connection, one thread: fill a 64 KiB piece from the socket, CRC-32C over it, pwrite it at the end of FILE,
// fdatasync after each MiB and at the end. The CRC uses the SSE4.2 instruction on three interleaved lanes, which hides
// its latency of three cycles; the lanes' results are joined through a table.
//
// Measures what moving and keeping the bytes costs when nothing is known about them. Leaves out messages (no framing,
// no numbers, no duplicates), a second writing by a sink, several connections, acknowledgements along the way, and
// recovery. FILE grows as it is written, it is not preallocated.
//
// Prints "ready", serves one connection to its end, answers it with the byte count (64 bit, little-endian) once all of
// it is synced, prints its totals and its CPU time since "ready" as one line of JSON, and ends.
#include "common.h"

#include <fcntl.h>
#include <nmmintrin.h>

enum {
    PIECE_BYTES = 64 * 1024,
    SYNC_BYTES = 1024 * 1024,
    LANE_BYTES = PIECE_BYTES / 3 / 8 * 8,
};

// zeros[k][v]: the CRC register whose byte k is v, moved on over LANE_BYTES of zeros. The register is linear over XOR,
// so four look-ups move any register.
static uint32_t zeros[4][256];

static uint64_t crc_words(uint64_t crc, const uint8_t *data, size_t len) {
    for (; len >= 8; data += 8, len -= 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        crc = _mm_crc32_u64(crc, word);
    }
    for (; len > 0; data++, len--) crc = _mm_crc32_u8((uint32_t)crc, *data);
    return crc;
}

static void make_zeros(void) {
    uint32_t bit[32];
    for (int i = 0; i < 32; i++) {
        uint64_t crc = 1u << i;
        for (int j = 0; j < LANE_BYTES / 8; j++) crc = _mm_crc32_u64(crc, 0);
        bit[i] = (uint32_t)crc;
    }
    for (int k = 0; k < 4; k++)
        for (int v = 0; v < 256; v++)
            for (int i = 0; i < 8; i++)
                if (v >> i & 1) zeros[k][v] ^= bit[8 * k + i];
}

static uint64_t over_a_lane(uint64_t crc) {
    return zeros[0][crc & 255] ^ zeros[1][crc >> 8 & 255] ^ zeros[2][crc >> 16 & 255] ^ zeros[3][crc >> 24 & 255];
}

static uint32_t crc32c(const uint8_t *data, size_t len) {
    uint64_t crc = 0xffffffff;
    for (; len >= 3 * LANE_BYTES; data += 3 * LANE_BYTES, len -= 3 * LANE_BYTES) {
        uint64_t second = 0, third = 0;
        for (size_t at = 0; at < LANE_BYTES; at += 8) {
            uint64_t a, b, c;
            memcpy(&a, data + at, 8);
            memcpy(&b, data + LANE_BYTES + at, 8);
            memcpy(&c, data + 2 * LANE_BYTES + at, 8);
            crc = _mm_crc32_u64(crc, a);
            second = _mm_crc32_u64(second, b);
            third = _mm_crc32_u64(third, c);
        }
        crc = over_a_lane(over_a_lane(crc) ^ second) ^ third;
    }
    return (uint32_t)crc_words(crc, data, len) ^ 0xffffffff;
}

// A floor with a wrong checksum would be no floor: the standard's test value, and lanes against no lanes.
static void check_crc32c(uint8_t *piece) {
    for (size_t i = 0; i < PIECE_BYTES; i++) piece[i] = (uint8_t)(i * 2654435761u >> 13);
    uint32_t plain = (uint32_t)crc_words(0xffffffff, piece, PIECE_BYTES) ^ 0xffffffff;
    if (crc32c((const uint8_t *)"123456789", 9) != 0xe3069283 || crc32c(piece, PIECE_BYTES) != plain) {
        fprintf(stderr, "crc32c is wrong\n");
        exit(EXIT_FAILURE);
    }
}

// Fills the piece, or less at the end of the stream.
static size_t fill(int fd, uint8_t *piece) {
    size_t len = 0;
    while (len < PIECE_BYTES) {
        ssize_t got = recv(fd, piece + len, PIECE_BYTES - len, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) fail("recv");
        if (got == 0) break;
        len += (size_t)got;
    }
    return len;
}

int main(int argc, char **argv) {
    if (argc != 3) usage("stream_durable PORT FILE");
    int listener = listen_on(port_number(argv[1]), 0);
    int file = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0) fail(argv[2]);
    static uint8_t piece[PIECE_BYTES];
    make_zeros();
    check_crc32c(piece);
    struct cpu start = cpu_now();
    announce_ready();

    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) fail("accept");
    double began = seconds_now();
    uint64_t total = 0, synced = 0, syncs = 0;
    uint32_t checksums = 0;
    for (size_t len; (len = fill(fd, piece)) > 0; total += len) {
        checksums ^= crc32c(piece, len);
        if (pwrite(file, piece, len, (off_t)total) != (ssize_t)len) fail("pwrite");
        if (total + len - synced >= SYNC_BYTES) {
            if (fdatasync(file) < 0) fail("fdatasync");
            synced = total + len;
            syncs++;
        }
    }
    if (fdatasync(file) < 0) fail("fdatasync");
    if (send_all(fd, (const char *)&total, sizeof total) < 0) fail("send");

    printf("{\"bytes\": %llu, \"syncs\": %llu, \"checksums\": %u, \"seconds\": %.6f, ", (unsigned long long)total,
           (unsigned long long)syncs + 1, checksums, seconds_now() - began);
    print_cpu_since(start);
    printf("}\n");
    return EXIT_SUCCESS;
}
