/* A program that logs to a bbq server by spdlog:
 *
 *     c++ -std=c++17 spdlog.cpp $(pkg-config --cflags --libs spdlog bbq) -o spdlog
 *     ./spdlog bbq://127.0.0.1:7700 1000
 */
#include <exception>
#include <iostream>
#include <memory>
#include <string>

#include <spdlog/spdlog.h>

#include <bbq_spdlog.hpp>

int main(int count, char **arguments) {
    if (count != 3) {
        std::cerr << "usage: spdlog SERVER MESSAGES\n";
        return 2;
    }
    try {
        const auto sink = std::make_shared<bbq::spdlog_sink_mt>(arguments[1]);
        spdlog::set_default_logger(std::make_shared<spdlog::logger>("app", sink));
        spdlog::set_pattern("%l %n: %v");
        // Also flushes when an uncaught exception ends the program.
        bbq::flush_on_terminate();
        const int messages = std::stoi(arguments[2]);
        for (int number = 0; number < messages; ++number) {
            spdlog::info("message {} of {}", number, messages);
        }
        // The end of the program waits for acknowledgements, at most 5 s.
        return 0;
    } catch (const std::exception &error) {
        std::cerr << "spdlog: " << error.what() << '\n';
        return 1;
    }
}
