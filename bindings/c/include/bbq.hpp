/* bbq::sender: a thin layer on bbq.h for C++17. Options and the start of a sender throw bbq::error; nothing else throws.
 *
 *     bbq::sender log{bbq::options{"bbq://127.0.0.1:7700"}};
 *     log.send("something happened");
 */
#ifndef BBQ_HPP
#define BBQ_HPP

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bbq.h>

namespace bbq {

using std::chrono::milliseconds;

/// bbq_status. An unknown value comes from a newer library, and is a failure.
enum class status : std::int32_t {
    ok = BBQ_STATUS_OK,
    argument = BBQ_STATUS_ARGUMENT,
    option = BBQ_STATUS_OPTION,
    system = BBQ_STATUS_SYSTEM,
    spool = BBQ_STATUS_SPOOL,
    full = BBQ_STATUS_FULL,
    too_large = BBQ_STATUS_TOO_LARGE,
    timeout = BBQ_STATUS_TIMEOUT,
    refused = BBQ_STATUS_REFUSED,
    protocol = BBQ_STATUS_PROTOCOL,
    closed = BBQ_STATUS_CLOSED,
    forked = BBQ_STATUS_FORKED,
    internal = BBQ_STATUS_INTERNAL,
    unfinished = BBQ_STATUS_UNFINISHED,
};

/// The failure of this thread's last call that failed.
inline std::string last_error() { return bbq_last_error(); }

/// An invalid option, or a sender that cannot be started.
class error : public std::runtime_error {
  public:
    explicit error(status code) : std::runtime_error(last_error()), code_(code) {}

    [[nodiscard]] status code() const noexcept { return code_; }

  private:
    status code_;
};

enum class ack : std::int32_t {
    durable = BBQ_ACK_DURABLE,
    received = BBQ_ACK_RECEIVED,
    none = BBQ_ACK_NONE,
    replicated = BBQ_ACK_REPLICATED,
};

enum class delivery : std::int32_t { any = BBQ_DELIVERY_ANY, all = BBQ_DELIVERY_ALL };

enum class compress : std::int32_t { off = BBQ_COMPRESS_OFF, on = BBQ_COMPRESS_ON, automatic = BBQ_COMPRESS_AUTO };

/// A change of a connection; valid during the call.
struct notice {
    bbq_notice_kind kind;
    std::string_view server;
    std::string_view why;
    std::uint64_t records;
};

namespace detail {

inline std::uint64_t count(milliseconds time) noexcept {
    return time.count() > 0 ? static_cast<std::uint64_t>(time.count()) : 0;
}

inline void check(bbq_status code) {
    if (code != BBQ_STATUS_OK) {
        throw error(static_cast<status>(code));
    }
}

using notice_handler = std::function<void(const notice &)>;

/// Drops an exception, which must not pass through the library.
inline void tell(const bbq_notice *told, void *user) noexcept {
    try {
        (*static_cast<notice_handler *>(user))(
            notice{static_cast<bbq_notice_kind>(told->kind), told->server, told->why, told->records});
    } catch (...) {
    }
}

inline void release(void *user) noexcept { delete static_cast<notice_handler *>(user); }

} // namespace detail

/// Options of a sender; bbq.h explains each. Every function throws bbq::error for an invalid value.
class options {
  public:
    options() : handle_(bbq_options_new()) {
        if (handle_ == nullptr) {
            throw error(status::internal);
        }
    }

    explicit options(const std::string &address) : options() { server(address); }

    options &server(const std::string &address) { return did(bbq_options_server(get(), address.c_str())); }
    options &to(delivery who) { return did(bbq_options_delivery(get(), static_cast<std::int32_t>(who))); }
    options &acknowledge(ack level) { return did(bbq_options_ack(get(), static_cast<std::int32_t>(level))); }
    options &queue_bytes_max(std::size_t bytes) { return did(bbq_options_queue_bytes_max(get(), bytes)); }
    /// A negative time-out means to wait without end.
    options &block_when_full(milliseconds timeout) {
        return did(bbq_options_on_full(get(), BBQ_ON_FULL_BLOCK, timeout.count()));
    }
    options &drop_newest_when_full() { return did(bbq_options_on_full(get(), BBQ_ON_FULL_DROP_NEWEST, 0)); }
    options &drop_oldest_when_full() { return did(bbq_options_on_full(get(), BBQ_ON_FULL_DROP_OLDEST, 0)); }
    options &batch_bytes(std::size_t bytes) { return did(bbq_options_batch_bytes(get(), bytes)); }
    options &linger(std::chrono::microseconds time) {
        return did(bbq_options_linger_us(get(), time.count() > 0 ? static_cast<std::uint64_t>(time.count()) : 0));
    }
    options &compression(compress how) { return did(bbq_options_compress(get(), static_cast<std::int32_t>(how))); }
    options &reconnect(const bbq_reconnect &how) { return did(bbq_options_reconnect(get(), &how)); }
    options &delivery_timeout(milliseconds time) {
        return did(bbq_options_delivery_timeout_ms(get(), detail::count(time)));
    }
    options &close_timeout(milliseconds time) { return did(bbq_options_close_timeout_ms(get(), detail::count(time))); }
    options &spool(const std::string &directory) { return did(bbq_options_spool(get(), directory.c_str())); }
    options &spool_bytes_max(std::uint64_t bytes) { return did(bbq_options_spool_bytes_max(get(), bytes)); }
    options &report_drops(bool report) { return did(bbq_options_report_drops(get(), report)); }
    options &tls_ca(const std::string &file) { return did(bbq_options_tls_ca(get(), file.c_str())); }
    options &tls_cert(const std::string &file) { return did(bbq_options_tls_cert(get(), file.c_str())); }
    options &tls_key(const std::string &file) { return did(bbq_options_tls_key(get(), file.c_str())); }
    options &tls_server_name(const std::string &name) { return did(bbq_options_tls_server_name(get(), name.c_str())); }
    options &token(const std::string &secret) { return did(bbq_options_token(get(), secret.c_str())); }
    options &name(const std::string &shown) { return did(bbq_options_name(get(), shown.c_str())); }
    /// The handler is called on a thread of the sender. Its exceptions are dropped.
    options &on_notice(std::function<void(const notice &)> handler) {
        auto user = std::make_unique<detail::notice_handler>(std::move(handler));
        return did(bbq_options_notice(get(), detail::tell, user.release(), detail::release));
    }

    [[nodiscard]] const bbq_options *get() const noexcept { return handle_.get(); }
    [[nodiscard]] bbq_options *get() noexcept { return handle_.get(); }

  private:
    struct free {
        void operator()(bbq_options *handle) const noexcept { bbq_options_free(handle); }
    };

    options &did(bbq_status code) {
        detail::check(code);
        return *this;
    }

    std::unique_ptr<bbq_options, free> handle_;
};

/// Sends messages as one stream, from any number of threads. The destructor waits for acknowledgements, at most for
/// options::close_timeout. The functions of a moved-from sender return status::argument.
class sender {
  public:
    /// Throws bbq::error.
    explicit sender(const options &how) {
        bbq_sender *started = nullptr;
        detail::check(bbq_sender_start(how.get(), &started));
        handle_.reset(started);
    }

    status send(std::string_view message) noexcept {
        return static_cast<status>(bbq_send(handle_.get(), message.data(), message.size()));
    }

    /// Never waits. A message that is refused is not counted as dropped.
    status try_send(std::string_view message) noexcept {
        return static_cast<status>(bbq_try_send(handle_.get(), message.data(), message.size()));
    }

    status flush(milliseconds timeout) noexcept {
        return static_cast<status>(bbq_flush(handle_.get(), detail::count(timeout)));
    }

    status close(milliseconds timeout) noexcept {
        return static_cast<status>(bbq_close(handle_.get(), detail::count(timeout)));
    }

    /// All zero if there is no sender, as in a child of a process whose sender has a spool.
    [[nodiscard]] bbq_counters counters() const noexcept {
        bbq_counters read{};
        read.size = sizeof read;
        bbq_sender_counters(handle_.get(), &read);
        return read;
    }

    status reconnect(bbq_reconnect &set) const noexcept {
        return static_cast<status>(bbq_sender_reconnect(handle_.get(), &set));
    }

    status set_reconnect(const bbq_reconnect &set) noexcept {
        return static_cast<status>(bbq_sender_set_reconnect(handle_.get(), &set));
    }

    status progress(std::size_t server, bbq_progress &read) const noexcept {
        return static_cast<status>(bbq_sender_progress(handle_.get(), server, &read));
    }

    [[nodiscard]] bbq_sender *get() const noexcept { return handle_.get(); }

  private:
    struct free {
        void operator()(bbq_sender *handle) const noexcept { bbq_sender_free(handle); }
    };

    std::unique_ptr<bbq_sender, free> handle_;
};

namespace detail {

inline std::atomic<std::uint64_t> terminate_timeout_ms{0};
inline std::terminate_handler terminate_before = nullptr;

[[noreturn]] inline void on_terminate() noexcept {
    bbq_flush_all(terminate_timeout_ms);
    if (terminate_before != nullptr) {
        terminate_before();
    }
    std::abort();
}

} // namespace detail

/// Flushes all senders when an uncaught exception ends the program, and then calls the previous handler. Call it in main, before other
/// threads start.
inline void flush_on_terminate(milliseconds timeout = milliseconds{5000}) noexcept {
    detail::terminate_timeout_ms = detail::count(timeout);
    if (std::get_terminate() != &detail::on_terminate) {
        detail::terminate_before = std::set_terminate(&detail::on_terminate);
    }
}

enum class format : std::int32_t { raw = BBQ_FORMAT_RAW, json = BBQ_FORMAT_JSON };

namespace detail {

template <typename Handle> struct receiver {
    Handle &handle;
    std::exception_ptr thrown;

    /// Keeps an exception, which must not pass through the library.
    static int call(const bbq_line *lines, std::size_t count, void *user) noexcept {
        auto *self = static_cast<receiver *>(user);
        try {
            std::vector<std::string_view> batch;
            batch.reserve(count);
            for (std::size_t index = 0; index < count; ++index) {
                batch.emplace_back(lines[index].bytes, lines[index].length);
            }
            self->handle(batch);
            return 0;
        } catch (...) {
            self->thrown = std::current_exception();
            return 1;
        }
    }
};

} // namespace detail

/// Calls `handle(const std::vector<std::string_view> &lines)` with the messages of the sink `exec:` that has started this program;
/// bbq_receive in bbq.h explains it. The lines of a call are done with when it returns. What it throws ends receiving, and is thrown again:
/// the lines come again when bbq has started the program again. Throws bbq::error for other failures.
template <typename Handle> void receive(format how, Handle &&handle) {
    detail::receiver<Handle> receiver{handle, nullptr};
    const bbq_status code = bbq_receive(static_cast<std::int32_t>(how), receiver.call, &receiver);
    if (receiver.thrown) {
        std::rethrow_exception(receiver.thrown);
    }
    detail::check(code);
}

} // namespace bbq

#endif // BBQ_HPP
