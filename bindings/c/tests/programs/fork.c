// A sender that is used in forks of its process, while another thread of the parent sends without a pause.
//
//     fork SERVER SPOOL: prints "parent N" for N messages "parent 0" to "parent N-1"; each child sends its own.

#define _POSIX_C_SOURCE 200809L

#include <bbq.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 24, EACH = 200, TIMEOUT_MS = 30000 };

static atomic_bool ended;

static void must(bbq_status status, const char *what) {
    if (status != BBQ_STATUS_OK) {
        fprintf(stderr, "%d: %s: status %d: %s\n", (int)getpid(), what, (int)status, bbq_last_error());
        _exit(1);
    }
}

static void send_text(bbq_sender *sender, const char *who, int number) {
    char text[64];
    int length = snprintf(text, sizeof text, "%s %d", who, number);
    must(bbq_send(sender, text, (size_t)length), text);
}

static bbq_sender *start(const char *server, const char *spool) {
    bbq_options *options = bbq_options_new();
    bbq_sender *sender = NULL;
    must(bbq_options_server(options, server), "server");
    must(bbq_options_on_full(options, BBQ_ON_FULL_BLOCK, -1), "on_full");
    must(bbq_options_close_timeout_ms(options, TIMEOUT_MS), "close_timeout");
    if (spool != NULL) {
        must(bbq_options_spool(options, spool), "spool");
    }
    must(bbq_sender_start(options, &sender), "start");
    bbq_options_free(options);
    return sender;
}

static void *flood(void *sender) {
    intptr_t number = 0;
    for (; !atomic_load(&ended); number += 1) {
        send_text(sender, "parent", (int)number);
        if (number % 1000 == 999) {
            must(bbq_flush(sender, TIMEOUT_MS), "flush");
        }
    }
    return (void *)number;
}

// Each child ends in another way; none of them may hang.
static void child(bbq_sender *sender, int index) {
    char who[32];
    snprintf(who, sizeof who, "child %d", index);
    if (index % 4 == 0) {
        // Not its own to close, and nothing of its own in it.
        bbq_sender_free(sender);
        exit(0);
    }
    for (int number = 0; number < EACH; number += 1) {
        send_text(sender, who, number);
    }
    if (index % 4 == 1) {
        must(bbq_flush(sender, TIMEOUT_MS), "flush in a child");
        _exit(0);
    }
    if (index % 4 == 2) {
        bbq_sender_free(sender);
        _exit(0);
    }
    // A child of the child is another process again.
    pid_t grandchild = fork();
    if (grandchild == 0) {
        strcat(who, "'s");
        for (int number = 0; number < EACH; number += 1) {
            send_text(sender, who, number);
        }
        exit(0);
    }
    int status = 1;
    waitpid(grandchild, &status, 0);
    // exit() waits for what the sender has.
    exit(status == 0 ? 0 : 1);
}

static void wait_for(pid_t pid) {
    int status = 1;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
        fprintf(stderr, "a child ended with status %d\n", status);
        exit(1);
    }
}

int main(int count, char **arguments) {
    if (count != 3) {
        return 2;
    }
    bbq_sender *sender = start(arguments[1], NULL);
    pthread_t thread;
    if (pthread_create(&thread, NULL, flood, sender) != 0) {
        return 1;
    }
    pid_t children[CHILDREN];
    for (int index = 0; index < CHILDREN; index += 1) {
        children[index] = fork();
        if (children[index] == 0) {
            child(sender, index);
        }
    }
    for (int index = 0; index < CHILDREN; index += 1) {
        wait_for(children[index]);
    }
    atomic_store(&ended, true);
    void *sent;
    pthread_join(thread, &sent);
    must(bbq_close(sender, TIMEOUT_MS), "close");
    bbq_counters counters = {.size = sizeof counters};
    must(bbq_sender_counters(sender, &counters), "counters");
    if (counters.acknowledged != (uint64_t)(intptr_t)sent) {
        fprintf(stderr, "the parent's sender has counted its children's messages\n");
        return 1;
    }
    // A closed one stays closed, wherever it is.
    pid_t late = fork();
    if (late == 0) {
        _exit(bbq_send(sender, "late", 4) == BBQ_STATUS_CLOSED ? 0 : 1);
    }
    wait_for(late);
    bbq_sender_free(sender);

    // The spool is the parent's.
    sender = start(arguments[1], arguments[2]);
    pid_t spooled = fork();
    if (spooled == 0) {
        bbq_status status = bbq_send(sender, "spooled", 7);
        fprintf(stderr, "%s\n", bbq_last_error());
        _exit(status == BBQ_STATUS_FORKED ? 0 : 1);
    }
    wait_for(spooled);
    must(bbq_send(sender, "spooled by the parent", 21), "send");
    bbq_sender_free(sender);
    printf("parent %d\n", (int)(intptr_t)sent);
    return 0;
}
