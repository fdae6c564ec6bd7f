// The judge of an output file: is every message there, whole, and once? A measurement counts only if it says yes.
//
//   lines_check FILE LINE_BYTES COUNT [numbered|loggen]
//       LINE_BYTES with the newline; numbered (default): a line starts with its number, as churn_client and
//       lines_client write it; loggen: the number is made of loggen's "seq: " and "thread: " fields
//
// Measures nothing. Does not look at the padding, and not at the order: neither is promised across connections.
// Prints one line of JSON; exit code 0 if all COUNT numbers are there once in lines of LINE_BYTES, else 1.
#include "common.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { LOGGEN_THREADS_MAX = 64 };
static const uint64_t NUMBERS_MAX = 1ull << 33;  // a bit each: a GiB of address space, touched only where used

// Digits up to the first other character; UINT64_MAX if there are none.
static uint64_t digits(const char *at, const char *end) {
    if (at == NULL || at >= end || *at < '0' || *at > '9') return UINT64_MAX;
    uint64_t value = 0;
    for (int i = 0; i < NUMBER_DIGITS && at < end && *at >= '0' && *at <= '9'; i++, at++)
        value = value * 10 + (uint64_t)(*at - '0');
    return value;
}

static const char *after(const char *label, const char *at, const char *end) {
    size_t len = strlen(label);
    const char *found = memmem(at, (size_t)(end - at), label, len);
    return found == NULL ? NULL : found + len;
}

static uint64_t loggen_number(const char *line, const char *end) {
    uint64_t seq = digits(after("seq: ", line, end), end), thread = digits(after("thread: ", line, end), end);
    if (seq == UINT64_MAX || thread >= LOGGEN_THREADS_MAX) return UINT64_MAX;
    return seq * LOGGEN_THREADS_MAX + thread;
}

int main(int argc, char **argv) {
    static const char text[] = "lines_check FILE LINE_BYTES COUNT [numbered|loggen]";
    if (argc < 4 || argc > 5) usage(text);
    uint64_t line_bytes = number("LINE_BYTES", argv[2], 2, 1 << 24), count = number("COUNT", argv[3], 1, 1ull << 32);
    const char *mode = argc == 5 ? argv[4] : "numbered";
    int loggen = strcmp(mode, "loggen") == 0;
    if (!loggen && strcmp(mode, "numbered") != 0) usage(text);

    int fd = open(argv[1], O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0) fail(argv[1]);
    uint64_t bytes = (uint64_t)status.st_size, lines = 0, distinct = 0, twice = 0, odd = 0;
    const char *data = bytes == 0 ? NULL : mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) fail("mmap");
    int untouched = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    uint8_t *seen = mmap(NULL, NUMBERS_MAX / 8, PROT_READ | PROT_WRITE, untouched, -1, 0);
    if (seen == MAP_FAILED) fail("mmap");

    for (uint64_t at = 0; at < bytes; lines++) {
        const char *line = data + at, *newline = memchr(line, '\n', bytes - at);
        uint64_t len = newline == NULL ? bytes - at : (uint64_t)(newline - line) + 1;
        uint64_t mine = loggen ? loggen_number(line, line + len) : digits(line, line + len);
        at += len;
        if (newline == NULL || len != line_bytes || mine >= NUMBERS_MAX) {
            odd++;
        } else if (seen[mine / 8] >> mine % 8 & 1) {
            twice++;
        } else {
            seen[mine / 8] |= (uint8_t)(1u << mine % 8);
            distinct++;
        }
    }
    int whole = distinct == count && lines == count;
    printf("{\"whole\": %s, \"expected\": %llu, \"lines\": %llu, \"distinct\": %llu, \"twice\": %llu, \"odd\": %llu, "
           "\"bytes\": %llu}\n",
           whole ? "true" : "false", (unsigned long long)count, (unsigned long long)lines,
           (unsigned long long)distinct, (unsigned long long)twice, (unsigned long long)odd, (unsigned long long)bytes);
    return whole ? EXIT_SUCCESS : EXIT_FAILURE;
}
