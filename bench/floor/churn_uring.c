// The floor for one connection per message by io_uring: each thread has a ring and its own SO_REUSEPORT socket.
//
//   churn_uring PORT THREADS [MODE [TASKRUN [GATHER_US]]]
//       MODE     accept   (default) one accept for all connections is in the ring; recv and close are system calls
//                ring     receive and close are in the ring, too
//                direct   the same, and connections are no descriptors but entries of the ring's own table
//                chain    accept, receive and close of a connection are linked, so that the thread sees only its end;
//                         a message that does not fit into one buffer fails
//       TASKRUN  deferred (default) completions are worked on when the thread asks for them; cooperative, when it is in
//                the kernel anyway; interrupt, at once
//       GATHER_US  wait for GATHER_LEAST completions; after so long one is enough (Linux 6.12)
//
// The same work as churn_epoll, without what a queue is for. A receive goes on until the end of the connection, into
// buffers that the kernel picks when there is something to receive.
//
// Prints "ready" once every socket listens. On SIGTERM it serves what is queued and open, prints its totals and its CPU
// time since "ready" as one line of JSON, and ends. "waits" counts the io_uring_enter that may wait.
#include "churn.h"
#include "uring.h"

#include <poll.h>

enum {
    ENTRIES = 1024,
    COMPLETIONS = 8192,   // a burst that fills a default accept queue of 4096, twice
    OPEN_MAX = 16384,     // connections in the ring's own table
    BUFFERS = 256,        // as many as one turn can fill; when none is left, the receive is tried again
    BUFFER_BYTES = 8192,  // a message of the load in one
    CHAINS = 64,
    CHAIN_ENTRIES = 3,
    GATHER_LEAST = 32,
};

enum mode { MODE_ACCEPT, MODE_RING, MODE_DIRECT, MODE_CHAIN };
enum event { ACCEPTED, RECEIVED, CLOSED, READABLE, STOPPED, CANCELLED };

static enum mode mode = MODE_ACCEPT;
static unsigned taskrun = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
static struct patience patience = {.least = 1};

struct work {
    struct server *server;
    struct ring ring;
    struct buffers buffers;
    char *buffer;   // for recv without the ring
    int accepting;  // accepts or chains that the ring has
    int open;       // connections accepted and not closed
    int stopping;
};

static int has_table(void) { return mode == MODE_DIRECT || mode == MODE_CHAIN; }

static struct io_uring_sqe *entry(struct work *work, uint8_t operation, int fd, enum event event, unsigned connection) {
    struct io_uring_sqe *entry = ring_entry(&work->ring);
    entry->opcode = operation;
    entry->fd = fd;
    entry->user_data = (uint64_t)event << 32 | connection;
    return entry;
}

static void accept_all(struct work *work) {
    struct io_uring_sqe *accept = entry(work, IORING_OP_ACCEPT, work->server->listener, ACCEPTED, 0);
    accept->ioprio = IORING_ACCEPT_MULTISHOT;
    if (mode == MODE_DIRECT) accept->file_index = IORING_FILE_INDEX_ALLOC;
    else accept->accept_flags = SOCK_CLOEXEC | (mode == MODE_ACCEPT ? SOCK_NONBLOCK : 0);
    work->accepting++;
}

static void receive_all(struct work *work, unsigned connection) {
    struct io_uring_sqe *receive = entry(work, IORING_OP_RECV, (int)connection, RECEIVED, connection);
    receive->flags = IOSQE_BUFFER_SELECT | (has_table() ? IOSQE_FIXED_FILE : 0);
    receive->ioprio = IORING_RECV_MULTISHOT;
}

static void close_later(struct work *work, unsigned connection) {
    struct io_uring_sqe *close = entry(work, IORING_OP_CLOSE, has_table() ? 0 : (int)connection, CLOSED, connection);
    if (has_table()) close->file_index = connection + 1;
    close->flags = IOSQE_CQE_SKIP_SUCCESS;
    work->open--;
}

static void poll_for(struct work *work, int fd, enum event event) {
    entry(work, IORING_OP_POLL_ADD, fd, event, (unsigned)fd)->poll32_events = POLLIN | POLLRDHUP;
}

// A connection from its beginning to its end, in one entry of the table.
static void chain(struct work *work, unsigned connection) {
    ring_reserve(&work->ring, CHAIN_ENTRIES);
    struct io_uring_sqe *accept = entry(work, IORING_OP_ACCEPT, work->server->listener, ACCEPTED, connection);
    accept->file_index = connection + 1;
    accept->flags = IOSQE_IO_HARDLINK | IOSQE_CQE_SKIP_SUCCESS;
    struct io_uring_sqe *receive = entry(work, IORING_OP_RECV, (int)connection, RECEIVED, connection);
    receive->flags = IOSQE_IO_HARDLINK | IOSQE_FIXED_FILE | IOSQE_BUFFER_SELECT;
    receive->msg_flags = MSG_WAITALL;  // until the end of the connection, or of the buffer
    receive->len = BUFFER_BYTES;
    entry(work, IORING_OP_CLOSE, 0, CLOSED, connection)->file_index = connection + 1;
    work->accepting++;
}

// Reads by system calls; a connection that would block is polled by the ring.
static void read_by_calls(struct work *work, int fd) {
    if (read_what_is_there(work->server, fd, work->buffer)) {
        close(fd);
        work->open--;
    } else {
        poll_for(work, fd, READABLE);
    }
}

static void on_accepted(struct work *work, const struct io_uring_cqe *completion) {
    if (mode == MODE_CHAIN) return;  // it failed, so what is linked to it does, too
    if (!(completion->flags & IORING_CQE_F_MORE)) {
        work->accepting--;
        if (!work->stopping) accept_all(work);
    }
    if (completion->res < 0) {
        if (!work->stopping) work->server->failed++;
        return;
    }
    work->open++;
    if (mode == MODE_ACCEPT) read_by_calls(work, completion->res);
    else receive_all(work, (unsigned)completion->res);
}

static void on_received(struct work *work, const struct io_uring_cqe *completion) {
    unsigned connection = (unsigned)completion->user_data;
    int got = completion->res;
    if (completion->flags & IORING_CQE_F_BUFFER)
        buffers_give(&work->buffers, completion->flags >> IORING_CQE_BUFFER_SHIFT);
    if (got > 0) work->server->bytes += (uint64_t)got;
    if (mode == MODE_CHAIN) {
        if (got >= 0 && got < BUFFER_BYTES) work->server->messages++;
        else if (!work->stopping) work->server->failed++;
    } else if (got > 0 || got == -ENOBUFS) {
        if (!(completion->flags & IORING_CQE_F_MORE)) receive_all(work, connection);
    } else {
        if (got == 0) work->server->messages++;
        else work->server->failed++;
        close_later(work, connection);
    }
}

static void on_closed(struct work *work, const struct io_uring_cqe *completion) {
    if (mode != MODE_CHAIN) {
        errno = -completion->res;
        fail("close");
    }
    work->accepting--;
    if (!work->stopping) chain(work, (unsigned)completion->user_data);
}

static void on_stopped(struct work *work) {
    work->stopping = 1;
    entry(work, IORING_OP_ASYNC_CANCEL, work->server->listener, CANCELLED, 0)->cancel_flags =
        IORING_ASYNC_CANCEL_FD | IORING_ASYNC_CANCEL_ALL;
}

static void on_completion(struct work *work, const struct io_uring_cqe *completion) {
    switch ((enum event)(completion->user_data >> 32)) {
        case ACCEPTED: return on_accepted(work, completion);
        case RECEIVED: return on_received(work, completion);
        case CLOSED: return on_closed(work, completion);
        case READABLE: return read_by_calls(work, (int)completion->user_data);
        case STOPPED: return on_stopped(work);
        case CANCELLED: return;
    }
}

// What came between the end of the ring's accepts and now.
static void serve_the_rest(struct server *server, char *buffer) {
    if (fcntl(server->listener, F_SETFL, O_NONBLOCK) < 0) fail("fcntl");
    for (int fd; (fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0; close(fd))
        read_what_is_there(server, fd, buffer);
}

static void *serve(void *argument) {
    struct work work = {.server = argument, .buffer = malloc(READ_BYTES)};
    if (work.buffer == NULL) fail("malloc");
    work.ring = ring_new(ENTRIES, COMPLETIONS, taskrun);
    if (patience.least > 1 && !(work.ring.features & IORING_FEAT_MIN_TIMEOUT)) usage("GATHER_US needs Linux 6.12");
    work.buffers = buffers_new(&work.ring, BUFFERS, BUFFER_BYTES);
    if (has_table()) ring_has_table(&work.ring, OPEN_MAX);
    poll_for(&work, work.server->stop_fd, STOPPED);
    if (mode == MODE_CHAIN)
        for (unsigned i = 0; i < CHAINS; i++) chain(&work, i);
    else
        accept_all(&work);
    while (!work.stopping || work.accepting > 0 || work.open > 0) {
        ring_enter(&work.ring, work.stopping ? (struct patience){.least = 1} : patience);
        work.server->waits++;
        for (struct io_uring_cqe completion; ring_take(&work.ring, &completion);) on_completion(&work, &completion);
    }
    ring_enter(&work.ring, (struct patience){0});  // the last that are to be closed
    serve_the_rest(work.server, work.buffer);
    free(work.buffer);
    return NULL;
}

int main(int argc, char **argv) {
    static const char text[] =
        "churn_uring PORT THREADS [accept|ring|direct|chain [deferred|cooperative|interrupt [GATHER_US]]]";
    static const char *const modes[] = {"accept", "ring", "direct", "chain"};
    if (argc < 3 || argc > 6) usage(text);
    uint16_t port = port_number(argv[1]);
    int threads = (int)number("THREADS", argv[2], 1, THREADS_MAX);
    if (argc > 3) {
        while (mode <= MODE_CHAIN && strcmp(argv[3], modes[mode]) != 0) mode++;
        if (mode > MODE_CHAIN) usage(text);
    }
    if (argc > 4) {
        if (strcmp(argv[4], "cooperative") == 0) taskrun = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN;
        else if (strcmp(argv[4], "interrupt") == 0) taskrun = 0;
        else if (strcmp(argv[4], "deferred") != 0) usage(text);
    }
    if (argc > 5)
        patience = (struct patience){GATHER_LEAST, (uint32_t)number("GATHER_US", argv[5], 1, MICROS_PER_SECOND)};
    run_servers(port, threads, modes[mode]);
    return EXIT_SUCCESS;
}
