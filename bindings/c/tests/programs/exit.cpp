// Sends so many messages and ends at once, in one of many ways. Nothing is sent before it ends: the linger is long.

#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include <spdlog/spdlog.h>

#include <bbq_spdlog.hpp>

namespace {

bbq::options long_linger(const char *server) {
    bbq::options options{server};
    options.linger(std::chrono::seconds{30}).close_timeout(std::chrono::seconds{30}).drop_newest_when_full();
    return options;
}

template <typename Send> void send_all(int messages, const Send &send) {
    for (int number = 0; number < messages; ++number) {
        send("message " + std::to_string(number));
    }
}

// Its end is after main's, and before or after the library's own handler.
std::unique_ptr<bbq::sender> global;

int run(const std::string &way, const char *server, int messages) {
    if (way == "spdlog") {
        auto sink = std::make_shared<bbq::spdlog_sink_mt>(long_linger(server));
        spdlog::set_default_logger(std::make_shared<spdlog::logger>("exit", sink));
        spdlog::set_pattern("%v");
        send_all(messages, [](const std::string &text) { spdlog::info(text); });
        return 0;
    }
    if (way == "global") {
        global = std::make_unique<bbq::sender>(long_linger(server));
        send_all(messages, [](const std::string &text) { global->send(text); });
        return 0;
    }
    bbq::sender sender{long_linger(server)};
    if (way == "thread") {
        std::thread{[&] { send_all(messages, [&](const std::string &text) { sender.send(text); }); }}.join();
        return 0;
    }
    send_all(messages, [&](const std::string &text) { sender.send(text); });
    if (way == "return") {
        return 0;
    }
    if (way == "exit") {
        std::exit(0);
    }
    if (way == "exit in a thread") {
        std::thread{[] { std::exit(0); }}.join();
    }
    if (way == "main thread ends") {
        pthread_exit(nullptr);
    }
    if (way == "exception") {
        bbq::flush_on_terminate(std::chrono::seconds{30});
        throw std::runtime_error("nobody catches this");
    }
    if (way == "exception in a thread") {
        bbq::flush_on_terminate(std::chrono::seconds{30});
        std::thread{[] { throw std::runtime_error("nobody catches this"); }}.join();
    }
    if (way == "_exit after a flush") {
        _exit(bbq_flush_all(30000) == BBQ_STATUS_OK ? 0 : 1);
    }
    std::cerr << "no way to end is called " << way << '\n';
    return 2;
}

} // namespace

int main(int count, char **arguments) {
    if (count != 4) {
        return 2;
    }
    return run(arguments[1], arguments[2], std::atoi(arguments[3]));
}
