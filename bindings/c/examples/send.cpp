/* The same in C++:
 *
 *     c++ -std=c++17 send.cpp $(pkg-config --cflags --libs bbq) -o send
 *     printf 'one\ntwo\n' | ./send bbq://127.0.0.1:7700
 */
#include <chrono>
#include <iostream>
#include <string>

#include <bbq.hpp>

int main(int count, char **arguments) {
    using namespace std::chrono_literals;
    if (count != 2) {
        std::cerr << "usage: send SERVER\n";
        return 2;
    }
    try {
        bbq::sender sender{bbq::options{arguments[1]}.name("send.cpp").on_notice([](const bbq::notice &notice) {
            if (notice.kind != BBQ_NOTICE_KIND_CONNECTED) {
                std::cerr << "send: " << notice.server << ": " << notice.why << '\n';
            }
        })};
        for (std::string line; std::getline(std::cin, line);) {
            if (sender.send(line) != bbq::status::ok) {
                std::cerr << "send: " << bbq::last_error() << '\n';
            }
        }
        const bbq::status closed = sender.close(30s);
        std::cout << sender.counters().acknowledged << " messages acknowledged\n";
        return closed == bbq::status::ok ? 0 : 1;
    } catch (const bbq::error &error) {
        std::cerr << "send: " << error.what() << '\n';
        return 1;
    }
}
