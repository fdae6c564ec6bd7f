/* bbq::spdlog_sink_mt and _st: a sink of spdlog that sends each log message to a bbq server.
 *
 *     auto log = std::make_shared<spdlog::logger>("app", std::make_shared<bbq::spdlog_sink_mt>("bbq://127.0.0.1:7700"));
 *     log->info("request {} took {} ms", 7, 12);
 *
 * Only its constructor throws. It never waits, unless its options say so: a message for which there is no room is dropped and counted.
 */
#ifndef BBQ_SPDLOG_HPP
#define BBQ_SPDLOG_HPP

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>

#include <bbq.hpp>

namespace bbq {

template <typename Mutex> class spdlog_sink final : public spdlog::sinks::base_sink<Mutex> {
  public:
    /// Drops the newest message when there is no room. Throws bbq::error.
    explicit spdlog_sink(const std::string &address) : spdlog_sink(options{address}.drop_newest_when_full()) {}

    /// With options::block_when_full a log call may wait. A flush of the logger waits at most for `flush_timeout`, by default not at all.
    /// Throws bbq::error.
    explicit spdlog_sink(const options &how, milliseconds flush_timeout = milliseconds{0})
        : sender_(std::make_shared<sender>(how)), flush_timeout_(flush_timeout) {}

    /// Uses a sender that others may use, too.
    explicit spdlog_sink(std::shared_ptr<sender> shared, milliseconds flush_timeout = milliseconds{0}) noexcept
        : sender_(std::move(shared)), flush_timeout_(flush_timeout) {}

    /// The sender, for its counters and for waiting.
    [[nodiscard]] bbq::sender &sender_of() noexcept { return *sender_; }

  protected:
    void sink_it_(const spdlog::details::log_msg &message) noexcept override {
        try {
            spdlog::memory_buf_t line;
            this->formatter_->format(message, line);
            sender_->send(without_end_of_line({line.data(), line.size()}));
        } catch (...) {
            // A message that cannot be formatted is sent as it is.
            sender_->send({message.payload.data(), message.payload.size()});
        }
    }

    void flush_() noexcept override { sender_->flush(flush_timeout_); }

  private:
    /// A message is a line by itself.
    static std::string_view without_end_of_line(std::string_view line) noexcept {
        while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) {
            line.remove_suffix(1);
        }
        return line;
    }

    std::shared_ptr<sender> sender_;
    milliseconds flush_timeout_;
};

using spdlog_sink_mt = spdlog_sink<std::mutex>;
using spdlog_sink_st = spdlog_sink<spdlog::details::null_mutex>;

} // namespace bbq

#endif // BBQ_SPDLOG_HPP
