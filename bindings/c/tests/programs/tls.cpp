// The same in C++: tls SERVER CA CERT KEY NAME
#include <chrono>
#include <iostream>
#include <string>

#include <bbq.hpp>

int main(int count, char **arguments) {
    if (count != 6) {
        return 1;
    }
    try {
        bbq::options options{arguments[1]};
        options.tls_ca(arguments[2]).tls_cert(arguments[3]).tls_key(arguments[4]).tls_server_name(arguments[5]);
        bbq::sender sender{options};
        for (std::string line; std::getline(std::cin, line);) {
            if (sender.send(line) != bbq::status::ok) {
                std::cerr << "tls: " << bbq::last_error() << '\n';
            }
        }
        sender.close(std::chrono::seconds{30});
        std::cout << sender.counters().acknowledged << " messages acknowledged\n";
        return 0;
    } catch (const bbq::error &error) {
        std::cerr << "tls: " << error.what() << '\n';
        return 1;
    }
}
