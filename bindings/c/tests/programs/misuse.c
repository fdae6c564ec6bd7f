// Mistakes of a program return a status and a text, and never end it. Correct calls succeed.
//
//     misuse SERVER SPOOL

#define _POSIX_C_SOURCE 200809L

#include <bbq.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int failures;

static void expect(int line, bbq_status is, bbq_status wanted, const char *text) {
    if (is != wanted || (text != NULL && strstr(bbq_last_error(), text) == NULL)) {
        fprintf(stderr, "line %d: status %d, wanted %d: %s\n", line, (int)is, (int)wanted, bbq_last_error());
        failures += 1;
    }
}

#define EXPECT(call, wanted, text) expect(__LINE__, call, wanted, text)
#define MUST(call) expect(__LINE__, call, BBQ_STATUS_OK, NULL)

static pthread_mutex_t release_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t release_changed = PTHREAD_COND_INITIALIZER;
static int released;

static void release(void *user) {
    (void)user;
    pthread_mutex_lock(&release_mutex);
    released += 1;
    pthread_cond_signal(&release_changed);
    pthread_mutex_unlock(&release_mutex);
}

struct heard {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int connected;
};

static void hear(const bbq_notice *notice, void *user) {
    struct heard *heard = user;
    pthread_mutex_lock(&heard->mutex);
    heard->connected += notice->kind == BBQ_NOTICE_KIND_CONNECTED && strstr(notice->server, "127.0.0.1") != NULL;
    pthread_cond_signal(&heard->changed);
    pthread_mutex_unlock(&heard->mutex);
}

static void wrong_options(void) {
    const char *latin = "bbq://caf\xe9:7700";
    bbq_options *options = bbq_options_new();
    EXPECT(bbq_options_server(NULL, "bbq://a:1"), BBQ_STATUS_ARGUMENT, "options is a null pointer");
    EXPECT(bbq_options_server(options, NULL), BBQ_STATUS_ARGUMENT, "address is a null pointer");
    EXPECT(bbq_options_server(options, latin), BBQ_STATUS_ARGUMENT, "not UTF-8");
    EXPECT(bbq_options_server(options, "nowhere"), BBQ_STATUS_ARGUMENT, "write bbq://HOST:PORT");
    EXPECT(bbq_options_name(options, latin), BBQ_STATUS_ARGUMENT, "not UTF-8");
    EXPECT(bbq_options_ack(options, 4), BBQ_STATUS_ARGUMENT, "ack is 4");
    EXPECT(bbq_options_delivery(options, -1), BBQ_STATUS_ARGUMENT, "delivery is -1");
    EXPECT(bbq_options_on_full(options, 7, 0), BBQ_STATUS_ARGUMENT, "on_full is 7");
    EXPECT(bbq_options_compress(options, 9), BBQ_STATUS_ARGUMENT, "compress is 9");
    EXPECT(bbq_options_reconnect(options, NULL), BBQ_STATUS_ARGUMENT, "reconnect is a null pointer");
    EXPECT(bbq_options_spool(options, NULL), BBQ_STATUS_ARGUMENT, "directory is a null pointer");
    EXPECT(bbq_options_notice(options, NULL, NULL, release), BBQ_STATUS_ARGUMENT, "callback is a null pointer");
    if (released != 1) {
        fprintf(stderr, "what a refused callback was given was released %d times\n", released);
        failures += 1;
    }
    bbq_sender *sender = (bbq_sender *)&failures;
    EXPECT(bbq_sender_start(NULL, &sender), BBQ_STATUS_ARGUMENT, "options is a null pointer");
    if (sender != NULL) {
        fprintf(stderr, "a sender that was not started is not null\n");
        failures += 1;
    }
    EXPECT(bbq_sender_start(options, NULL), BBQ_STATUS_ARGUMENT, "sender is a null pointer");
    EXPECT(bbq_sender_start(options, &sender), BBQ_STATUS_OPTION, "no server is named");
    MUST(bbq_options_server(options, "bbq://127.0.0.1:1"));
    MUST(bbq_options_batch_bytes(options, 1));
    EXPECT(bbq_sender_start(options, &sender), BBQ_STATUS_OPTION, "batch_bytes is 1; use");
    bbq_options_free(options);
}

/* An offer does not wait where a send would, for ever. */
static void offers(void) {
    bbq_options *options = bbq_options_new();
    bbq_sender *sender = NULL;
    bbq_counters counters = {.size = sizeof counters};
    static char message[1000];
    MUST(bbq_options_server(options, "bbq://127.0.0.1:1"));
    MUST(bbq_options_queue_bytes_max(options, 64 * 1024));
    MUST(bbq_options_on_full(options, BBQ_ON_FULL_BLOCK, -1));
    MUST(bbq_options_close_timeout_ms(options, 0));
    MUST(bbq_sender_start(options, &sender));
    for (int number = 0; number < 100; number += 1) {
        bbq_try_send(sender, message, sizeof message);
    }
    EXPECT(bbq_try_send(sender, message, sizeof message), BBQ_STATUS_FULL, "queue is full");
    MUST(bbq_sender_counters(sender, &counters));
    if (counters.accepted == 0 || counters.accepted > 64 || counters.dropped_full != 0) {
        fprintf(stderr, "of 101 offers %d were taken\n", (int)counters.accepted);
        failures += 1;
    }
    bbq_sender_free(sender);
    bbq_options_delivery(options, BBQ_DELIVERY_ALL);
    MUST(bbq_options_server(options, "127.0.0.1:1"));
    EXPECT(bbq_sender_start(options, &sender), BBQ_STATUS_OPTION, "named twice");
    bbq_options_free(options);
}

static void no_sender(void) {
    bbq_counters counters = {.size = sizeof counters};
    bbq_reconnect reconnect;
    bbq_progress progress;
    EXPECT(bbq_send(NULL, "a", 1), BBQ_STATUS_ARGUMENT, "sender is a null pointer");
    EXPECT(bbq_try_send(NULL, "a", 1), BBQ_STATUS_ARGUMENT, "sender is a null pointer");
    EXPECT(bbq_flush(NULL, 0), BBQ_STATUS_ARGUMENT, "sender is a null pointer");
    EXPECT(bbq_close(NULL, 0), BBQ_STATUS_ARGUMENT, "sender is a null pointer");
    EXPECT(bbq_sender_counters(NULL, &counters), BBQ_STATUS_ARGUMENT, "sender is a null pointer");
    EXPECT(bbq_sender_reconnect(NULL, &reconnect), BBQ_STATUS_ARGUMENT, "sender is a null pointer");
    EXPECT(bbq_sender_progress(NULL, 0, &progress), BBQ_STATUS_ARGUMENT, "sender is a null pointer");
    bbq_sender_free(NULL);
    bbq_options_free(NULL);
    MUST(bbq_flush_all(0));
}

static void wrong_calls(bbq_sender *sender) {
    struct {
        uint64_t size;
        char rest[8];
    } small = {.size = sizeof small};
    bbq_reconnect backwards = {.attempts = 1, .attempts_min = 2, .wait_ms = 20, .wait_max_ms = 1000};
    bbq_progress progress;
    static char large[2 * 1024 * 1024];
    EXPECT(bbq_send(sender, NULL, 1), BBQ_STATUS_ARGUMENT, "bytes is a null pointer");
    EXPECT(bbq_send(sender, "a", SIZE_MAX), BBQ_STATUS_ARGUMENT, "more than there can be");
    EXPECT(bbq_send(sender, large, sizeof large), BBQ_STATUS_TOO_LARGE, "message_bytes_max");
    EXPECT(bbq_sender_counters(sender, NULL), BBQ_STATUS_ARGUMENT, "counters is a null pointer");
    EXPECT(bbq_sender_counters(sender, (bbq_counters *)&small), BBQ_STATUS_ARGUMENT, "sizeof(bbq_counters)");
    EXPECT(bbq_sender_set_reconnect(sender, &backwards), BBQ_STATUS_OPTION, "attempts");
    EXPECT(bbq_sender_progress(sender, 1, &progress), BBQ_STATUS_ARGUMENT, "there is no server 1");
}

static void right_calls(bbq_sender *sender) {
    bbq_reconnect set = {.attempts = 9, .attempts_min = 2, .wait_ms = 30, .wait_max_ms = 4000};
    bbq_reconnect read;
    bbq_progress progress;
    MUST(bbq_sender_set_reconnect(sender, &set));
    MUST(bbq_sender_reconnect(sender, &read));
    MUST(bbq_send(sender, NULL, 0));
    MUST(bbq_send(sender, "zero\0inside", 11));
    MUST(bbq_flush(sender, UINT64_MAX));
    MUST(bbq_sender_progress(sender, 0, &progress));
    if (memcmp(&set, &read, sizeof set) != 0 || progress.acknowledged_sequence < 2 || !progress.connected ||
        strncmp(progress.server, "bbq://127.0.0.1:", 16) != 0) {
        fprintf(stderr, "what was set is not what is read\n");
        failures += 1;
    }
    // A newer program, whose struct has more.
    struct {
        bbq_counters known;
        uint64_t unknown;
    } newer = {.known = {.size = sizeof newer}, .unknown = 77};
    MUST(bbq_sender_counters(sender, &newer.known));
    if (newer.known.size != sizeof(bbq_counters) || newer.unknown != 77 || newer.known.dropped_too_large != 1) {
        fprintf(stderr, "the counters of a newer program are wrong\n");
        failures += 1;
    }
}

int main(int count, char **arguments) {
    if (count != 3) {
        return 2;
    }
    if (strcmp(bbq_last_error(), "") != 0) {
        fprintf(stderr, "an error before the first: %s\n", bbq_last_error());
        failures += 1;
    }
    wrong_options();
    offers();
    no_sender();

    struct heard heard = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    bbq_options *options = bbq_options_new();
    bbq_sender *sender = NULL;
    MUST(bbq_options_server(options, arguments[1]));
    MUST(bbq_options_spool(options, arguments[2]));
    MUST(bbq_options_notice(options, hear, &heard, release));
    MUST(bbq_sender_start(options, &sender));
    bbq_sender *second = NULL;
    EXPECT(bbq_sender_start(options, &second), BBQ_STATUS_SPOOL, "in use by another sender");
    bbq_options_free(options);
    if (sender == NULL) {
        return 1;
    }
    pthread_mutex_lock(&heard.mutex);
    while (heard.connected == 0) {
        pthread_cond_wait(&heard.changed, &heard.mutex);
    }
    pthread_mutex_unlock(&heard.mutex);
    wrong_calls(sender);
    right_calls(sender);
    MUST(bbq_close(sender, 30000));
    MUST(bbq_close(sender, 30000));
    EXPECT(bbq_send(sender, "late", 4), BBQ_STATUS_CLOSED, "closed");
    bbq_sender_free(sender);
    // By the last of the sender's threads, which may still be on its way to its end.
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += 60;
    pthread_mutex_lock(&release_mutex);
    while (released < 2 && pthread_cond_timedwait(&release_changed, &release_mutex, &deadline) == 0) {
    }
    pthread_mutex_unlock(&release_mutex);
    if (released != 2) {
        fprintf(stderr, "what the callback was given was released %d times\n", released - 1);
        failures += 1;
    }
    return failures == 0 ? 0 : 1;
}
