//! How many messages a run gets: all there are, unless the command fails on some of them.
//!
//! A message on which the command fails each time must not hold up the messages after it for ever. Only the command knows which message that
//! is. So after a failure that took nothing, the next run gets fewer messages, until it gets one alone; the input ends behind it, so that a
//! command which collects messages does not wait for more. If the command fails on that one for long, it is rejected.
//!
//! The message need not be at fault, and the sink cannot tell. So at most one message is rejected in each [`FAILED_FOR`]: little is set apart
//! during an outage, and a sender of bad messages cannot stop the sink for all others.

use std::time::Duration;

/// A message on which the command fails is rejected when the command has failed on it, alone, for this long: a restart of what the command
/// needs takes less. The kinds of sinks that make requests wait as long.
pub(super) const FAILED_FOR: Duration = Duration::from_secs(60);
/// A command that takes so many messages in a run gets all there are: about what a pipe holds, and a run of these is long enough that its
/// start costs little.
const MESSAGES_MAX: u64 = 1024;

/// See the module.
pub(super) struct Limit {
    /// The next run gets no more; `u64::MAX` if it gets all. At least 1.
    messages: u64,
    /// Since when the command fails on the next message, alone.
    failing_since: Option<Duration>,
}

impl Limit {
    pub(super) fn new() -> Limit {
        Limit { messages: u64::MAX, failing_since: None }
    }

    /// Most messages of the next run.
    pub(super) fn messages(&self) -> u64 {
        self.messages
    }

    /// A run has taken a message: the next run gets twice as many.
    pub(super) fn taken(&mut self) {
        self.failing_since = None;
        self.messages = match self.messages.saturating_mul(2) {
            doubled if doubled > MESSAGES_MAX => u64::MAX,
            doubled => doubled,
        };
    }

    /// Another message may be the next one, or the failure was none of a message: who fails from now on has a whole minute.
    pub(super) fn forget_time(&mut self) {
        self.failing_since = None;
    }

    /// A run has failed that got so many messages and took none: the next run gets half of them. Returns whether the one message that it got
    /// is to be rejected.
    pub(super) fn failed(&mut self, given: u64, now: Duration) -> bool {
        match given {
            // It has failed without one.
            0 => false,
            1 => {
                self.messages = 1;
                let since = *self.failing_since.get_or_insert(now);
                let is_over = now.saturating_sub(since) >= FAILED_FOR;
                if is_over {
                    self.failing_since = None;
                }
                is_over
            }
            _ => {
                self.failing_since = None;
                self.messages = given.div_ceil(2);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(1000);

    /// Lets a command that fails on one message get `messages`. Returns how many runs it takes until it got that one alone.
    fn runs_until_alone(messages: u64, bad: u64) -> u32 {
        let (mut limit, mut taken, mut runs) = (Limit::new(), 0, 0);
        loop {
            let given = limit.messages().min(messages - taken);
            runs += 1;
            assert!(runs < 1000, "{messages} messages, of which {bad} is bad");
            match bad - taken {
                0 if given == 1 => return runs,
                before if before < given => assert!(!limit.failed(given, START)),
                _ => {
                    taken += given;
                    limit.taken();
                }
            }
        }
    }

    /// The command takes all messages of a run together.
    #[test]
    fn the_message_at_fault_is_soon_alone() {
        for messages in [1, 2, 3, 100, 1000, 100_000] {
            for bad in [0, messages / 3, messages / 2, messages - 1] {
                let runs = runs_until_alone(messages, bad);
                // As many for each 1024 messages before it, as the limit ends there.
                let most = 4 * (messages.ilog2() + 1) * (1 + (messages / MESSAGES_MAX) as u32);
                assert!(runs <= most, "{runs} runs for message {bad} of {messages}");
            }
        }
    }

    #[test]
    fn a_message_is_rejected_after_a_minute_alone() {
        let mut limit = Limit::new();
        assert!(!limit.failed(3, START) && !limit.failed(2, START));
        assert_eq!(limit.messages(), 1);
        // Also without a message, as when the shell does not start; and for an hour.
        assert!(!limit.failed(0, START + 60 * FAILED_FOR));
        let alone = START + 120 * FAILED_FOR;
        assert!(!limit.failed(1, alone) && !limit.failed(1, alone + FAILED_FOR / 2));
        assert!(limit.failed(1, alone + FAILED_FOR));
        assert!(!limit.failed(1, alone + FAILED_FOR), "the next one has its own minute");
        limit.taken();
        assert!(!limit.failed(1, alone + 3 * FAILED_FOR), "it took something meanwhile");
        assert!(limit.failed(1, alone + 4 * FAILED_FOR));
        assert!(!limit.failed(1, alone + 5 * FAILED_FOR));
        limit.forget_time();
        assert!(!limit.failed(1, alone + 6 * FAILED_FOR), "it may be another one");
    }

    #[test]
    fn a_command_that_works_again_soon_gets_everything() {
        let mut limit = Limit::new();
        limit.taken();
        assert_eq!(limit.messages(), u64::MAX);
        limit.failed(2, START);
        let runs = (1..100).find(|_| {
            limit.taken();
            limit.messages() == u64::MAX
        });
        assert_eq!(runs, Some(11));
    }
}
