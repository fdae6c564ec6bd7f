/* Sends the lines of its standard input by TLS: tls SERVER CA CERT KEY NAME */
#define _POSIX_C_SOURCE 200809L

#include <bbq.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static bbq_status start(char **arguments, bbq_sender **sender) {
    bbq_options *options = bbq_options_new();
    bbq_status status = bbq_options_server(options, arguments[1]);
    if (status == BBQ_STATUS_OK) {
        status = bbq_options_tls_ca(options, arguments[2]);
    }
    if (status == BBQ_STATUS_OK) {
        status = bbq_options_tls_cert(options, arguments[3]);
    }
    if (status == BBQ_STATUS_OK) {
        status = bbq_options_tls_key(options, arguments[4]);
    }
    if (status == BBQ_STATUS_OK) {
        status = bbq_options_tls_server_name(options, arguments[5]);
    }
    if (status == BBQ_STATUS_OK) {
        status = bbq_sender_start(options, sender);
    }
    bbq_options_free(options);
    return status;
}

int main(int count, char **arguments) {
    bbq_sender *sender = NULL;
    if (count != 6 || bbq_options_tls_ca(NULL, "x") != BBQ_STATUS_ARGUMENT || start(arguments, &sender) != BBQ_STATUS_OK) {
        fprintf(stderr, "tls: %s\n", bbq_last_error());
        return 1;
    }
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    while ((length = getline(&line, &room, stdin)) > 0) {
        if (bbq_send(sender, line, (size_t)length - 1) != BBQ_STATUS_OK) {
            fprintf(stderr, "tls: %s\n", bbq_last_error());
        }
    }
    free(line);
    if (bbq_close(sender, 30000) != BBQ_STATUS_OK) {
        fprintf(stderr, "tls: %s\n", bbq_last_error());
    }
    bbq_counters counters = {.size = sizeof counters};
    bbq_sender_counters(sender, &counters);
    printf("%" PRIu64 " messages acknowledged\n", counters.acknowledged);
    bbq_sender_free(sender);
    return 0;
}
