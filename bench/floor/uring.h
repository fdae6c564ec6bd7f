// io_uring by its system calls alone: a ring that one thread makes, fills and reads, and buffers to receive into. No
// measurement lives here. What cannot be set up ends the program.
#pragma once

#include "common.h"

#include <linux/io_uring.h>
#include <linux/time_types.h>
#include <sys/mman.h>
#include <sys/syscall.h>

// Newer than the headers of the oldest system this is built on.
#ifndef IORING_FEAT_MIN_TIMEOUT
#define IORING_FEAT_MIN_TIMEOUT (1U << 15)  // Linux 6.12
#endif

struct ring {
    int fd;
    int registered;  // its index among the task's registered rings: io_uring_enter need not look it up
    unsigned features;
    struct io_uring_sqe *entries;
    unsigned *sq_head, *sq_tail, sq_mask, sq_size, sq_next;  // sq_next: entries filled, not yet shown to the kernel
    struct io_uring_cqe *completions;
    unsigned *cq_head, *cq_tail, cq_mask;
};

static inline void *ring_map(int fd, size_t bytes, off_t what) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, what);
    if (at == MAP_FAILED) fail("mmap of an io_uring");
    return at;
}

static inline void ring_register(int fd, unsigned what, void *argument, unsigned count, const char *name) {
    if (syscall(SYS_io_uring_register, fd, what, argument, count) < 0) fail(name);
}

static inline struct ring ring_new(unsigned entries, unsigned completions, unsigned flags) {
    struct io_uring_params parameters = {.flags = flags | IORING_SETUP_CQSIZE, .cq_entries = completions};
    int fd = (int)syscall(SYS_io_uring_setup, entries, &parameters);
    if (fd < 0) fail("io_uring_setup (Linux 6.1 or newer, and sysctl kernel.io_uring_disabled=0)");
    char *sq = ring_map(fd, parameters.sq_off.array + parameters.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
    char *cq = ring_map(fd, parameters.cq_off.cqes + parameters.cq_entries * sizeof(struct io_uring_cqe),
                        IORING_OFF_CQ_RING);
    unsigned *array = (unsigned *)(sq + parameters.sq_off.array);
    for (unsigned i = 0; i < parameters.sq_entries; i++) array[i] = i;
    struct io_uring_rsrc_update own = {.offset = -1U, .data = (unsigned)fd};
    ring_register(fd, IORING_REGISTER_RING_FDS, &own, 1, "IORING_REGISTER_RING_FDS");
    return (struct ring){
        .fd = fd,
        .registered = (int)own.offset,
        .features = parameters.features,
        .entries = ring_map(fd, parameters.sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES),
        .sq_head = (unsigned *)(sq + parameters.sq_off.head),
        .sq_tail = (unsigned *)(sq + parameters.sq_off.tail),
        .sq_mask = parameters.sq_entries - 1,
        .sq_size = parameters.sq_entries,
        .completions = (struct io_uring_cqe *)(cq + parameters.cq_off.cqes),
        .cq_head = (unsigned *)(cq + parameters.cq_off.head),
        .cq_tail = (unsigned *)(cq + parameters.cq_off.tail),
        .cq_mask = parameters.cq_entries - 1,
    };
}

// What io_uring_enter waits for: `least` completions, but after `least_us` one is enough (0: it is not).
struct patience {
    unsigned least;
    uint32_t least_us;
};

// struct io_uring_getevents_arg, one of whose fields got a meaning and another name in Linux 6.12.
struct ring_wait {
    uint64_t signals;
    uint32_t signals_bytes, least_us;
    uint64_t limit;
};

// Shows the kernel what was filled, and waits.
static inline void ring_enter(struct ring *ring, struct patience patience) {
    // Also what an earlier call left.
    unsigned filled = ring->sq_next - __atomic_load_n(ring->sq_head, __ATOMIC_ACQUIRE);
    __atomic_store_n(ring->sq_tail, ring->sq_next, __ATOMIC_RELEASE);
    struct ring_wait argument = {.least_us = patience.least_us};
    unsigned flags = IORING_ENTER_REGISTERED_RING | IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG;
    if (syscall(SYS_io_uring_enter, ring->registered, filled, patience.least, flags, &argument, sizeof argument) >= 0)
        return;
    if (errno != EINTR && errno != EBUSY && errno != EAGAIN && errno != ETIME) fail("io_uring_enter");
}

// Makes room for `count` entries in a row. When there is none, what is filled goes first.
static inline void ring_reserve(struct ring *ring, unsigned count) {
    while (ring->sq_next - __atomic_load_n(ring->sq_head, __ATOMIC_ACQUIRE) + count > ring->sq_size)
        ring_enter(ring, (struct patience){0});
}

// The next entry to fill, zeroed.
static inline struct io_uring_sqe *ring_entry(struct ring *ring) {
    ring_reserve(ring, 1);
    struct io_uring_sqe *entry = &ring->entries[ring->sq_next++ & ring->sq_mask];
    memset(entry, 0, sizeof *entry);
    return entry;
}

// Takes the oldest completion, if there is one.
static inline int ring_take(struct ring *ring, struct io_uring_cqe *completion) {
    unsigned head = *ring->cq_head;
    if (head == __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE)) return 0;
    *completion = ring->completions[head & ring->cq_mask];
    __atomic_store_n(ring->cq_head, head + 1, __ATOMIC_RELEASE);
    return 1;
}

// A table for `count` connections that have no descriptor.
static inline void ring_has_table(const struct ring *ring, unsigned count) {
    struct io_uring_rsrc_register table = {.nr = count, .flags = IORING_RSRC_REGISTER_SPARSE};
    ring_register(ring->fd, IORING_REGISTER_FILES2, &table, sizeof table, "IORING_REGISTER_FILES2");
}

// Buffers the kernel picks from when there is something to receive: a connection that waits holds none.
struct buffers {
    struct io_uring_buf_ring *ring;
    char *bytes;
    unsigned count, size;
    uint16_t tail;
};

static inline void buffers_give(struct buffers *buffers, unsigned id) {
    struct io_uring_buf *slot = &buffers->ring->bufs[buffers->tail & (buffers->count - 1)];
    slot->addr = (uint64_t)(uintptr_t)(buffers->bytes + (size_t)id * buffers->size);
    slot->len = buffers->size;
    slot->bid = (uint16_t)id;
    __atomic_store_n(&buffers->ring->tail, ++buffers->tail, __ATOMIC_RELEASE);
}

// `count` buffers of `size` bytes as group 0; count is a power of two.
static inline struct buffers buffers_new(const struct ring *ring, unsigned count, unsigned size) {
    size_t ring_bytes = count * sizeof(struct io_uring_buf), bytes = (size_t)count * size;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
    char *at = mmap(NULL, ring_bytes + bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (at == MAP_FAILED) fail("mmap of buffers");
    char *descriptors = at, *data = at + ring_bytes;
    struct io_uring_buf_reg registration = {.ring_addr = (uint64_t)(uintptr_t)descriptors, .ring_entries = count};
    ring_register(ring->fd, IORING_REGISTER_PBUF_RING, &registration, 1, "IORING_REGISTER_PBUF_RING");
    struct buffers buffers = {
        .ring = (struct io_uring_buf_ring *)descriptors, .bytes = data, .count = count, .size = size};
    for (unsigned i = 0; i < count; i++) buffers_give(&buffers, i);
    return buffers;
}
