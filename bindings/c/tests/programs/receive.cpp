// Receives messages, and meanwhile does what programs do beside it: it prints, starts a command that reads its standard input, forks,
// throws and waits. Run in a directory of its own, where files say what it does:
//
//     receive_cpp      appends to out.log; throws while there is a file `fail`; while there is a file `hang`, writes its process id to
//                      `hangs` and waits for the file `go`

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string_view>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <bbq.hpp>

static bool exists(const char *path) { return access(path, F_OK) == 0; }

// A child is ended by SIGTERM, and the parent is not told to stop.
static void fork_and_end() {
    const pid_t child = fork();
    if (child == 0) {
        raise(SIGTERM);
        _exit(1);
    }
    int how = 0;
    if (waitpid(child, &how, 0) != child || !WIFSIGNALED(how) || WTERMSIG(how) != SIGTERM) {
        throw std::runtime_error("the child did not end by SIGTERM");
    }
}

static void handle(const std::vector<std::string_view> &lines) {
    std::cout << "stray" << std::flush;
    if (std::system("cat >> stolen.log; echo 99999999") != 0) {
        throw std::runtime_error("cat failed");
    }
    fork_and_end();
    if (exists("fail")) {
        throw std::runtime_error("the database is away");
    }
    if (exists("hang")) {
        std::ofstream("hangs") << getpid() << '\n';
        while (!exists("go")) {
            usleep(1000);
        }
    }
    std::ofstream out("out.log", std::ios::app | std::ios::binary);
    for (const std::string_view line : lines) {
        out << line << '\n';
    }
}

int main() {
    try {
        bbq::receive(bbq::format::raw, handle);
        return 0;
    } catch (const std::exception &error) {
        std::cerr << error.what() << '\n';
        return 1;
    }
}
