/* Sends the lines of its standard input, and prints how many are acknowledged:
 *
 *     cc send.c $(pkg-config --cflags --libs bbq) -o send
 *     printf 'one\ntwo\n' | ./send bbq://127.0.0.1:7700
 */
#define _POSIX_C_SOURCE 200809L

#include <bbq.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static bbq_sender *start(const char *server) {
    bbq_sender *sender = NULL;
    bbq_options *options = bbq_options_new();
    if (bbq_options_server(options, server) != BBQ_STATUS_OK || bbq_sender_start(options, &sender) != BBQ_STATUS_OK) {
        fprintf(stderr, "send: %s\n", bbq_last_error());
    }
    bbq_options_free(options);
    return sender;
}

int main(int count, char **arguments) {
    if (count != 2) {
        fprintf(stderr, "usage: send SERVER\n");
        return 2;
    }
    bbq_sender *sender = start(arguments[1]);
    if (sender == NULL) {
        return 1;
    }
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    while ((length = getline(&line, &room, stdin)) > 0) {
        size_t bytes = (size_t)length - (line[length - 1] == '\n');
        if (bbq_send(sender, line, bytes) != BBQ_STATUS_OK) {
            fprintf(stderr, "send: %s\n", bbq_last_error());
        }
    }
    free(line);
    bbq_status closed = bbq_close(sender, 30000);
    if (closed != BBQ_STATUS_OK) {
        fprintf(stderr, "send: %s\n", bbq_last_error());
    }
    bbq_counters counters = {.size = sizeof counters};
    bbq_sender_counters(sender, &counters);
    printf("%" PRIu64 " messages acknowledged\n", counters.acknowledged);
    bbq_sender_free(sender);
    return closed == BBQ_STATUS_OK ? 0 : 1;
}
