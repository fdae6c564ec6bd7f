/* bbq: sends messages to bbq servers without ever stalling the program that has them.
 *
 * Made by cbindgen from bindings/c/src: change it there.
 *
 *     bbq_options *options = bbq_options_new();
 *     bbq_options_server(options, "bbq://127.0.0.1:7700");
 *     bbq_sender *sender = NULL;
 *     if (bbq_sender_start(options, &sender) != BBQ_STATUS_OK) {
 *         fprintf(stderr, "%s\n", bbq_last_error());
 *     }
 *     bbq_options_free(options);
 *     bbq_send(sender, "something happened", 18);
 *     bbq_sender_free(sender);
 *
 * Threads: a sender may be used by any number of threads at once; options by one. bbq_sender_free is the last call.
 *
 * Signals: no function is safe in a signal handler.
 *
 * Exit: when main returns, or exit() is called, what every sender still has is waited for, at most as long as its close
 * time-out says. Not after _exit, quick_exit, abort or a signal that kills: call bbq_flush_all before.
 *
 * Fork: a sender that is used in a forked child is there another one with the same options: what the parent has taken the
 * parent sends, what the child gives it the child sends. One with a spool answers BBQ_STATUS_FORKED, as the spool is the
 * parent's. A child may free a sender or leave it; that touches nothing of the parent's. Not to be used between vfork and
 * exec, and not known to clone() without the C library.
 *
 * Numbers only ever get more: a number that is not in this header comes from a newer library and is a failure. */

#ifndef BBQ_H
#define BBQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Room for the longest host name, a port, and what stands around them; longer paths of unix sockets do not exist.
#define BBQ_ADDRESS_BYTES 288

// What a function answers. 0 is good.
enum bbq_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Done.
    BBQ_STATUS_OK = 0,
    // A null pointer, text that is not UTF-8, an address that is none, or a number that means nothing. A mistake in the program.
    BBQ_STATUS_ARGUMENT = 1,
    // An option outside its range, or no server named. A mistake in the program or its configuration.
    BBQ_STATUS_OPTION = 2,
    // The system refused a thread or random numbers.
    BBQ_STATUS_SYSTEM = 3,
    // The spool cannot be opened or written, or another sender has it.
    BBQ_STATUS_SPOOL = 4,
    // No room in the queue, in the spool, or on its disk. The message was dropped and counted; later ones may be taken.
    BBQ_STATUS_FULL = 5,
    // The message is over the server's limit. It was dropped and counted.
    BBQ_STATUS_TOO_LARGE = 6,
    // Not everything was acknowledged in time. It stays queued.
    BBQ_STATUS_TIMEOUT = 7,
    // The server refuses what was sent, and would again: the end of the sender.
    BBQ_STATUS_REFUSED = 8,
    // The server does not speak the protocol: the end of the sender.
    BBQ_STATUS_PROTOCOL = 9,
    // The sender was closed, or failed before.
    BBQ_STATUS_CLOSED = 10,
    // The sender, or its spool, belongs to the parent process.
    BBQ_STATUS_FORKED = 11,
    // A defect of the library.
    BBQ_STATUS_INTERNAL = 12,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum bbq_status bbq_status;
#else
typedef int32_t bbq_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What an acknowledgement means.
enum bbq_ack
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // The message is on the server's disk.
    BBQ_ACK_DURABLE = 0,
    // The server has it in memory.
    BBQ_ACK_RECEIVED = 1,
    // Nothing: a message counts as acknowledged when it is written to the connection.
    BBQ_ACK_NONE = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum bbq_ack bbq_ack;
#else
typedef int32_t bbq_ack;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Whether batches are compressed with LZ4.
enum bbq_compress
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Never.
    BBQ_COMPRESS_OFF = 0,
    // Always; a batch that would grow stays as it is.
    BBQ_COMPRESS_ON = 1,
    // Where it pays: to servers on other machines, while batches shrink.
    BBQ_COMPRESS_AUTO = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum bbq_compress bbq_compress;
#else
typedef int32_t bbq_compress;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Who gets a message when several servers are named.
enum bbq_delivery
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // The first server that answers; back to the one named first when it is there again.
    BBQ_DELIVERY_ANY = 0,
    // Every server, each with its own progress.
    BBQ_DELIVERY_ALL = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum bbq_delivery bbq_delivery;
#else
typedef int32_t bbq_delivery;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What a notice is about.
enum bbq_notice_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // A server has welcomed the sender.
    BBQ_NOTICE_KIND_CONNECTED = 0,
    // A server does not answer, or broke off; it or the next is tried.
    BBQ_NOTICE_KIND_UNREACHABLE = 1,
    // A server will never take what this sender has.
    BBQ_NOTICE_KIND_ENDED = 2,
    // What is not acknowledged is sent with the numbers of a new stream: those of the present one cannot be trusted.
    BBQ_NOTICE_KIND_NEW_STREAM = 3,
    // A server has lost messages that it had acknowledged, or the sender gives up what no server would take.
    BBQ_NOTICE_KIND_LOST = 4,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum bbq_notice_kind bbq_notice_kind;
#else
typedef int32_t bbq_notice_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What becomes of a message for which there is no room.
enum bbq_on_full
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // bbq_send waits for room, at most as long as its time-out; then the message is dropped and counted.
    BBQ_ON_FULL_BLOCK = 0,
    // The message is dropped and counted.
    BBQ_ON_FULL_DROP_NEWEST = 1,
    // The oldest messages that are not on their way are dropped and counted; where there are none, the newest.
    BBQ_ON_FULL_DROP_OLDEST = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum bbq_on_full bbq_on_full;
#else
typedef int32_t bbq_on_full;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Sends messages as one stream, from any number of threads.
typedef struct bbq_sender bbq_sender;

// Options of a sender. They may be used for any number of senders, and changed between.
typedef struct bbq_options bbq_options;

// How often and how fast servers that do not answer are tried again. Each delivery that fails lowers the attempts by one and
// doubles the wait, each success takes one step back. The present values are in bbq_progress.
typedef struct bbq_reconnect {
    // Attempts that make a delivery: so many in a row must fail until the values change. At least 1.
    uint32_t attempts;
    // The attempts never fall below. 1 to `attempts`.
    uint32_t attempts_min;
    // The wait between two attempts; half of it is by chance.
    uint64_t wait_ms;
    // The wait never grows beyond.
    uint64_t wait_max_ms;
} bbq_reconnect;

// A change of a connection; valid during the call.
typedef struct bbq_notice {
    // A bbq_notice_kind; ignore those that you do not know.
    int32_t kind;
    // Which server.
    const char *server;
    // What happened; empty when there is nothing to say.
    const char *why;
    // So many messages are lost; 0 for other kinds.
    uint64_t records;
} bbq_notice;

// Hears of notices.
typedef void (*bbq_notice_callback)(const struct bbq_notice *notice, void *user);

// Frees what a callback was given.
typedef void (*bbq_release_callback)(void *user);

// Messages, by what became of them:
// accepted + recovered = acknowledged + queued + dropped_oldest + dropped_abandoned, at every moment.
typedef struct bbq_counters {
    // Set to sizeof(bbq_counters) before the call. After it, the size of what was filled in.
    uint64_t size;
    // Taken, the sender's own reports of drops included.
    uint64_t accepted;
    // Found in the spool at the start.
    uint64_t recovered;
    // Written to a connection, each counted once for a server.
    uint64_t sent;
    // Acknowledged at the level that was asked for, by every server that is to have them.
    uint64_t acknowledged;
    // Taken and not acknowledged.
    uint64_t queued;
    // Memory that they take, with what is kept for the next ones.
    uint64_t queued_bytes;
    // Connections that broke or could not be made.
    uint64_t reconnects;
    // Not taken: there was no room.
    uint64_t dropped_full;
    // Not taken: over the size that the server takes.
    uint64_t dropped_too_large;
    // Not taken: the sender's own spool could not be written.
    uint64_t dropped_spool;
    // Not taken: the sender was closed, or had failed.
    uint64_t dropped_closed;
    // Taken, and dropped for newer ones.
    uint64_t dropped_oldest;
    // Taken, and given up.
    uint64_t dropped_abandoned;
    // Connections that ended because the server broke the protocol; `reconnects` has them, too.
    uint64_t protocol_errors;
} bbq_counters;

// How far one server is; with BBQ_DELIVERY_ANY all of them are one. This struct never changes.
typedef struct bbq_progress {
    // Every message up to this number is acknowledged; numbers begin at 1.
    uint64_t acknowledged_sequence;
    // Connections that broke or could not be made.
    uint64_t reconnects;
    // The present wait between two attempts to connect.
    uint64_t reconnect_wait_ms;
    // The present attempts that make a delivery.
    uint32_t reconnect_attempts;
    // Whether it has welcomed the sender.
    bool connected;
    // The server that is connected, or was tried last; a string.
    char server[BBQ_ADDRESS_BYTES];
} bbq_progress;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Version of the library, such as "0.1.0". It may be newer than the header.
const char *bbq_version(void);

// What went wrong in this thread's last call that failed, as text; empty before the first. It stays valid until the thread's
// next call of this function.
const char *bbq_last_error(void);

// Options with their defaults, to be freed with bbq_options_free.
struct bbq_options *bbq_options_new(void);

// Frees options; senders that were started with them go on. Null is nothing to free.
//
// # Safety
// `options` is null, or from bbq_options_new and not freed.
void bbq_options_free(struct bbq_options *options);

// One more server, as bbq://HOST:PORT or bbq+unix:///PATH; the one named first is preferred.
//
// # Safety
// `options` is from bbq_options_new; `address` is a string.
bbq_status bbq_options_server(struct bbq_options *options, const char *address);

// Who gets a message when several servers are named: a bbq_delivery, BBQ_DELIVERY_ANY unless set.
//
// # Safety
// `options` is from bbq_options_new.
bbq_status bbq_options_delivery(struct bbq_options *options, int32_t delivery);

// What an acknowledgement means: a bbq_ack, BBQ_ACK_DURABLE unless set.
//
// # Safety
// `options` is from bbq_options_new.
bbq_status bbq_options_ack(struct bbq_options *options, int32_t ack);

// Bytes that the queue takes at most, what is sent and not acknowledged included: 64 MiB unless set, at least 64 KiB.
//
// # Safety
// `options` is from bbq_options_new.
bbq_status bbq_options_queue_bytes_max(struct bbq_options *options,
                                       size_t bytes);

// What becomes of a message for which there is no room: a bbq_on_full. BBQ_ON_FULL_BLOCK with 1000 ms unless set.
// The time-out is only for BBQ_ON_FULL_BLOCK; a negative one means to wait without end.
//
// # Safety
// `options` is from bbq_options_new.
bbq_status bbq_options_on_full(struct bbq_options *options,
                               int32_t on_full,
                               int64_t timeout_ms);

// A batch is sent when its messages have so many bytes: 128 KiB unless set, 1 KiB to 256 KiB.
//
// # Safety
// `options` is from bbq_options_new.
bbq_status bbq_options_batch_bytes(struct bbq_options *options, size_t bytes);

// A message waits so long for company: about 2000 us unless set, at most a minute.
//
// # Safety
// `options` is from bbq_options_new.
bbq_status bbq_options_linger_us(struct bbq_options *options, uint64_t linger_us);

// Whether batches are compressed: a bbq_compress, BBQ_COMPRESS_OFF unless set.
//
// # Safety
// `options` is from bbq_options_new.
bbq_status bbq_options_compress(struct bbq_options *options, int32_t compress);

// How often and how fast servers that do not answer are tried again.
//
// # Safety
// `options` is from bbq_options_new; `reconnect` points to a bbq_reconnect.
bbq_status bbq_options_reconnect(struct bbq_options *options,
                                 const struct bbq_reconnect *reconnect);

// A server that acknowledges nothing for so long although something waits is left: 30000 ms unless set, at least 1000 ms.
//
// # Safety
// `options` is from bbq_options_new.
bbq_status bbq_options_delivery_timeout_ms(struct bbq_options *options,
                                           uint64_t timeout_ms);

// Freeing the sender, and the end of the process, wait at most so long for what is not acknowledged: 5000 ms unless set.
//
// # Safety
// `options` is from bbq_options_new.
bbq_status bbq_options_close_timeout_ms(struct bbq_options *options,
                                        uint64_t timeout_ms);

// A directory of this sender's own. What bbq_send has taken then survives the process, though not a power failure, and is
// delivered by the next sender that is started with it. Each bbq_send costs a system call more.
//
// # Safety
// `options` is from bbq_options_new; `directory` is a string.
bbq_status bbq_options_spool(struct bbq_options *options,
                             const char *directory);

// Bytes that the spool takes at most: 1 GiB unless set, at least 64 MiB.
//
// # Safety
// `options` is from bbq_options_new.
bbq_status bbq_options_spool_bytes_max(struct bbq_options *options, uint64_t bytes);

// Whether a message that says how many were dropped is sent once there is room again: yes, unless set.
//
// # Safety
// `options` is from bbq_options_new.
bbq_status bbq_options_report_drops(struct bbq_options *options,
                                    bool report);

// Shown by the server, at most 255 bytes.
//
// # Safety
// `options` is from bbq_options_new; `name` is a string.
bbq_status bbq_options_name(struct bbq_options *options, const char *name);

// Calls `callback` with `user` on a thread of the sender's when a server answers that did not before, or the other way round.
// It must be quick, must not throw, and must not fork or free the sender.
// `release`, which may be null, is called with `user` when neither the options nor a sender can call `callback` any more;
// also when this call fails.
//
// # Safety
// `options` is from bbq_options_new; `callback` and `release` may be called with `user` from any thread.
bbq_status bbq_options_notice(struct bbq_options *options,
                              bbq_notice_callback callback,
                              void *user,
                              bbq_release_callback release);

// Starts a sender, and returns before it has connected. The options stay the caller's.
// `*sender` is set to the sender, or to null when it cannot be started.
//
// # Safety
// `options` is from bbq_options_new; `sender` points to a pointer.
bbq_status bbq_sender_start(const struct bbq_options *options, struct bbq_sender **sender);

// Takes a message: copies it, and returns. Messages of one thread keep their order.
// Waits only when there is no room, and only as long as bbq_options_on_full says.
//
// # Safety
// `sender` is from bbq_sender_start and not freed; `bytes` points to `length` bytes.
bbq_status bbq_send(const struct bbq_sender *sender, const void *bytes, size_t length);

// Takes a message if that needs no waiting, whatever bbq_options_on_full says. One that is refused is not counted as dropped: the
// caller still has it. With BBQ_ON_FULL_DROP_OLDEST older ones go for it.
//
// # Safety
// `sender` is from bbq_sender_start and not freed; `bytes` points to `length` bytes.
bbq_status bbq_try_send(const struct bbq_sender *sender,
                        const void *bytes,
                        size_t length);

// Waits until everything taken before is acknowledged.
//
// # Safety
// `sender` is from bbq_sender_start and not freed.
bbq_status bbq_flush(const struct bbq_sender *sender, uint64_t timeout_ms);

// Waits until everything that every sender of this process has taken is acknowledged: for programs that are about to end
// without exit(), such as in a handler of std::terminate. Not for signal handlers.
// Answers BBQ_STATUS_TIMEOUT when something is left.
bbq_status bbq_flush_all(uint64_t timeout_ms);

// Takes nothing any more, waits until everything is acknowledged, and ends. What is not acknowledged in time is counted as
// abandoned, or stays in the spool for the next start. Closing again changes nothing.
//
// # Safety
// `sender` is from bbq_sender_start and not freed.
bbq_status bbq_close(const struct bbq_sender *sender,
                     uint64_t timeout_ms);

// Reads the set reconnect parameters.
//
// # Safety
// `sender` is from bbq_sender_start and not freed; `reconnect` points to a bbq_reconnect.
bbq_status bbq_sender_reconnect(const struct bbq_sender *sender, struct bbq_reconnect *reconnect);

// Sets other reconnect parameters; contradictory ones change nothing and answer BBQ_STATUS_OPTION.
//
// # Safety
// `sender` is from bbq_sender_start and not freed; `reconnect` points to a bbq_reconnect.
bbq_status bbq_sender_set_reconnect(const struct bbq_sender *sender,
                                    const struct bbq_reconnect *reconnect);

// Closes the sender with its close time-out unless it is closed, and frees it. Null is nothing to free.
//
// # Safety
// `sender` is null, or from bbq_sender_start and not freed, and no other thread uses it.
void bbq_sender_free(struct bbq_sender *sender);

// Reads what the sender has done in this process. Set `counters->size` before.
//
// # Safety
// `sender` is from bbq_sender_start and not freed; `counters` points to as many bytes as its first field says.
bbq_status bbq_sender_counters(const struct bbq_sender *sender,
                               struct bbq_counters *counters);

// Reads how far a server is: they are numbered from 0 in the order in which they were named. Answers BBQ_STATUS_ARGUMENT
// behind the last one.
//
// # Safety
// `sender` is from bbq_sender_start and not freed; `progress` points to a bbq_progress.
bbq_status bbq_sender_progress(const struct bbq_sender *sender,
                               size_t server,
                               struct bbq_progress *progress);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* BBQ_H */
