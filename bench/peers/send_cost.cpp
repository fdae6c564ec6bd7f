// What a call costs of the libraries that applications use to hand messages on, measured in the application's thread.
//
//   send_cost zmq MILLISECONDS       zmq_send to a thread that receives, no high-water mark
//   send_cost spdlog MILLISECONDS    an asynchronous logger (8,192 places, drops the oldest) that writes a file here
//
// 100 bytes a call; the clock is read around each. Prints one line of JSON, times in nanoseconds.
#include <spdlog/async.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <zmq.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t message_bytes = 100;
constexpr std::uint64_t calls_per_look = 1024;
constexpr std::size_t places = 8192;

// Times up to 1 ms to the nanosecond; the few that are longer one by one.
class Latency {
public:
    void record(std::uint64_t nanoseconds) {
        calls_++;
        if (nanoseconds < short_.size()) short_[nanoseconds]++;
        else long_.push_back(nanoseconds);
    }

    std::uint64_t calls() const { return calls_; }

    std::uint64_t quantile(double part) {
        auto wanted = static_cast<std::uint64_t>(part * static_cast<double>(calls_));
        for (std::size_t nanoseconds = 0; nanoseconds < short_.size(); nanoseconds++) {
            if (wanted < short_[nanoseconds]) return nanoseconds;
            wanted -= short_[nanoseconds];
        }
        std::sort(long_.begin(), long_.end());
        return long_.empty() ? 0 : long_[std::min<std::size_t>(wanted, long_.size() - 1)];
    }

private:
    std::vector<std::uint64_t> short_ = std::vector<std::uint64_t>(1'000'000);
    std::vector<std::uint64_t> long_;
    std::uint64_t calls_ = 0;
};

long sleeps() {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
}

template <typename Call>
void measure(std::chrono::milliseconds duration, Call call) {
    Latency latency;
    const long slept = sleeps();
    const auto began = Clock::now(), end = began + duration;
    while (Clock::now() < end) {
        for (std::uint64_t i = 0; i < calls_per_look; i++) {
            const auto before = Clock::now();
            call();
            latency.record(static_cast<std::uint64_t>((Clock::now() - before).count()));
        }
    }
    const std::chrono::duration<double> took = Clock::now() - began;
    std::printf("{\"calls\": %llu, \"seconds\": %.6f, \"p50\": %llu, \"p99\": %llu, \"p999\": %llu, \"max\": %llu, \"sleeps\": %ld}\n",
                static_cast<unsigned long long>(latency.calls()), took.count(),
                static_cast<unsigned long long>(latency.quantile(0.5)), static_cast<unsigned long long>(latency.quantile(0.99)),
                static_cast<unsigned long long>(latency.quantile(0.999)), static_cast<unsigned long long>(latency.quantile(1)),
                sleeps() - slept);
}

[[noreturn]] void fail(const char *what) {
    std::fprintf(stderr, "%s: %s\n", what, zmq_strerror(zmq_errno()));
    std::exit(EXIT_FAILURE);
}

void zmq(std::chrono::milliseconds duration, std::string_view message) {
    void *context = zmq_ctx_new();
    void *pull = zmq_socket(context, ZMQ_PULL), *push = zmq_socket(context, ZMQ_PUSH);
    const int unbounded = 0;
    zmq_setsockopt(push, ZMQ_SNDHWM, &unbounded, sizeof unbounded);
    zmq_setsockopt(pull, ZMQ_RCVHWM, &unbounded, sizeof unbounded);
    if (zmq_bind(pull, "tcp://127.0.0.1:*") != 0) fail("bind");
    char address[64];
    std::size_t bytes = sizeof address;
    if (zmq_getsockopt(pull, ZMQ_LAST_ENDPOINT, address, &bytes) != 0) fail("ZMQ_LAST_ENDPOINT");
    if (zmq_connect(push, address) != 0) fail("connect");
    std::thread reader([pull] {
        char buffer[256];
        // An empty message is the last one.
        while (zmq_recv(pull, buffer, sizeof buffer, 0) != 0) {
        }
    });
    measure(duration, [&] {
        if (zmq_send(push, message.data(), message.size(), 0) < 0) fail("zmq_send");
    });
    zmq_send(push, "", 0, 0);
    reader.join();
    zmq_close(push);
    zmq_close(pull);
    zmq_ctx_term(context);
}

void spdlog_async(std::chrono::milliseconds duration, std::string_view message) {
    spdlog::init_thread_pool(places, 1);
    auto logger = spdlog::basic_logger_mt<spdlog::async_factory_impl<spdlog::async_overflow_policy::overrun_oldest>>("log", "spdlog.log");
    measure(duration, [&] { logger->info(message); });
    spdlog::shutdown();
}

}  // namespace

int main(int argc, char **argv) {
    const std::string word = argc == 3 ? argv[1] : "";
    const std::chrono::milliseconds duration(argc == 3 ? std::atoi(argv[2]) : 0);
    const std::string message(message_bytes, 'm');
    if (duration.count() > 0 && word == "zmq") {
        zmq(duration, message);
    } else if (duration.count() > 0 && word == "spdlog") {
        spdlog_async(duration, message);
    } else {
        std::fprintf(stderr, "usage: send_cost zmq|spdlog MILLISECONDS\n");
        return 2;
    }
    return EXIT_SUCCESS;
}
