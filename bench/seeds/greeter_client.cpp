// The client of the first seed (SO_REUSEPORT greeter): connect, send the name, close. It never waits for an answer.
//
//   greeter_client NAME [HOST [PORT]]
//       without them: GREETER_HOST and GREETER_PORT from the environment, else 127.0.0.1 and 12345, the seed's port
//
// Exit codes: 0 sent, 1 failed, 2 wrong usage.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>

namespace {

std::string setting(int argc, char** argv, int index, const char* variable, const char* otherwise) {
  if (argc > index) return argv[index];
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

std::optional<sockaddr_in> address(const std::string& host, const std::string& port) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  char* end = nullptr;
  const unsigned long number = std::strtoul(port.c_str(), &end, 10);
  if (port.empty() || *end != '\0' || number == 0 || number > UINT16_MAX) return std::nullopt;
  result.sin_port = htons(static_cast<uint16_t>(number));
  if (inet_pton(AF_INET, host.c_str(), &result.sin_addr) != 1) return std::nullopt;
  return result;
}

bool send_all(int fd, std::string_view rest) {
  while (!rest.empty()) {
    const ssize_t sent = send(fd, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return false;
    rest.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

int failed(const char* what) {
  std::cerr << "greeter_client: " << what << ": " << std::strerror(errno) << '\n';
  return EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int exit_usage = 2;
  if (argc < 2 || argc > 4) {
    std::cerr << "usage: greeter_client NAME [HOST [PORT]]\n";
    return exit_usage;
  }
  const std::string host = setting(argc, argv, 2, "GREETER_HOST", "127.0.0.1");
  const std::string port = setting(argc, argv, 3, "GREETER_PORT", "12345");
  const auto server = address(host, port);
  if (!server) {
    std::cerr << "greeter_client: \"" << host << "\" port \"" << port << "\": give an IPv4 address and a port\n";
    return exit_usage;
  }

  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return failed("socket");
  if (connect(fd, reinterpret_cast<const sockaddr*>(&*server), sizeof *server) < 0) return failed("connect");
  if (!send_all(fd, argv[1])) return failed("send");
  close(fd);
  return EXIT_SUCCESS;
}
