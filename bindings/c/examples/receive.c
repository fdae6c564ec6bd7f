/* Appends each message to a file. bbq starts it:
 *
 *     cc receive.c $(pkg-config --cflags --libs bbq) -o receive
 *     bbq serve --sink "exec:exec ./receive messages.txt?ack=line"
 */
#define _POSIX_C_SOURCE 200809L

#include <bbq.h>
#include <stdio.h>
#include <unistd.h>

/* The messages are done with once they are on disk. */
static int append(const bbq_line *lines, size_t count, void *user) {
    FILE *file = user;
    for (size_t index = 0; index < count; index += 1) {
        fwrite(lines[index].bytes, 1, lines[index].length, file);
        putc('\n', file);
    }
    return fflush(file) != 0 || fsync(fileno(file)) != 0;
}

int main(int count, char **arguments) {
    if (count != 2) {
        fprintf(stderr, "usage: receive FILE\n");
        return 2;
    }
    FILE *file = fopen(arguments[1], "ab+");
    if (file == NULL) {
        perror(arguments[1]);
        return 1;
    }
    /* A run that was killed may have left a part of a line. */
    if (fseek(file, -1, SEEK_END) == 0 && getc(file) != '\n') {
        fseek(file, 0, SEEK_END);
        putc('\n', file);
    }
    bbq_status status = bbq_receive(BBQ_FORMAT_RAW, append, file);
    if (status != BBQ_STATUS_OK) {
        fprintf(stderr, "receive: %s\n", bbq_last_error());
    }
    fclose(file);
    return status == BBQ_STATUS_OK ? 0 : 1;
}
