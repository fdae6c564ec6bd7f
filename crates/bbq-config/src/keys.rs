//! The keys of the configuration file, each defined once. The parser of the file, the options of `bbq serve`, the tables of
//! docs/CONFIGURATION.md, the JSON Schema and the default file are made from this list.
//!
//! Not here: the options of listeners (`listen_options`), of readers (`read_options`) and of sinks (each kind of sink has its own).

use bbq_intake::{DISTRIBUTIONS, READERS_MAX};
use bbq_spec::{SpecOption, Values};
use bbq_spool::limits::{SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};

use crate::memory_plan::UNFINISHED_BYTES_PER_WORKER_MIN;

/// Where the admin listens unless configured.
pub const ADMIN_DEFAULT: &str = "127.0.0.1:7790";
/// No address to listen on.
pub(super) const OFF: &str = "off";
/// The admin asks for no token.
pub(super) const ADMIN_TOKENS_DEFAULT: &str = "none";
/// The default of a list without SPECs.
pub(super) const NO_SPECS: &str = "none";
/// The placeholder for the data directory in the default of `sink`.
pub(super) const DATA: &str = "DATA";
/// The most workers, as in bbq-listen.
pub(super) const WORKERS_MAX: u64 = 256;
/// The most listeners: each has a socket per worker, and an envelope names its source in 16 bits.
pub(super) const LISTENERS_MAX: u64 = 256;
/// The most sinks: each is a thread.
const SINKS_MAX: u64 = 64;
/// A day: longer waits make no sense.
const TIMEOUT_SECONDS_MAX: u64 = 86_400;
/// The most memory of unfinished batches and messages: more than a machine has.
const UNFINISHED_BYTES_MAX: u64 = 1 << 40;

/// A key of the configuration file.
#[derive(Debug)]
pub struct FileKey {
    /// A key in a table has the name `TABLE.KEY`. The default is a value, or a description of the value.
    pub option: SpecOption,
    /// The word for the value in the help of the command line option of this name; `None` if there is no such option.
    pub argument: Option<&'static str>,
    /// What a reload (SIGHUP) does with a change.
    pub on_reload: OnReload,
}

/// What a reload does with a change of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnReload {
    /// It takes effect.
    Applies,
    /// It takes effect for listeners that are new; open sockets stay as they are until an upgrade or a restart.
    NewListeners,
    /// It takes effect with an upgrade or a restart.
    Waits,
}

/// The keys, in the order in which people read them. The keys of tables come last.
pub static FILE_KEYS: [FileKey; 20] = [
    FileKey {
        argument: Some("SPEC"),
        on_reload: OnReload::Applies,
        option: SpecOption {
            key: "listen",
            values: Values::Specs(0..=LISTENERS_MAX),
            default: "bbq+tcp://127.0.0.1:7700, lines+tcp://127.0.0.1:7701, syslog+udp://127.0.0.1:5514, \
                      syslog+tcp://127.0.0.1:5514, http+tcp://127.0.0.1:7780",
            meaning: "the addresses to listen on. The option may be repeated, and replaces all listeners of the file. \
                      A server that reads files may have none (`[]`)",
        },
    },
    FileKey {
        argument: Some("SPEC"),
        on_reload: OnReload::Applies,
        option: SpecOption {
            key: "read",
            values: Values::Specs(0..=READERS_MAX as u64),
            default: NO_SPECS,
            meaning: "the files, container logs and journals to read, each line once. The option may be repeated, and replaces all readers of the file",
        },
    },
    FileKey {
        argument: Some("SPEC"),
        on_reload: OnReload::Applies,
        option: SpecOption {
            key: "sink",
            values: Values::Specs(0..=SINKS_MAX),
            default: "file:DATA/out/messages.log",
            meaning: "where to deliver messages. The option may be repeated, and replaces all sinks of the file. Without a \
                      sink, the spool fills up; then senders wait or messages are dropped (`on_full`)",
        },
    },
    FileKey {
        argument: Some("DIR"),
        on_reload: OnReload::Waits,
        option: SpecOption {
            key: "data",
            values: Values::Text { form: "a directory", pattern: "." },
            default: "bbq-data",
            meaning: "the data directory: spool, cursors and one lock. One server at a time can use it",
        },
    },
    FileKey {
        argument: Some("N"),
        on_reload: OnReload::Applies,
        option: SpecOption {
            key: "workers",
            values: Values::Number(1..=WORKERS_MAX),
            default: "one per processor that the process may use, and at most one per 32MiB of the memory that it may use",
            meaning: "worker threads",
        },
    },
    FileKey {
        argument: Some("MODE"),
        on_reload: OnReload::NewListeners,
        option: SpecOption {
            key: "distribution",
            values: DISTRIBUTIONS,
            default: "auto",
            meaning: "how connections and datagrams are spread over the workers, for listeners without a distribution of \
                      their own",
        },
    },
    FileKey {
        argument: None,
        on_reload: OnReload::Applies,
        option: SpecOption {
            key: "stall_threshold_ms",
            values: Values::NumberOrNever(2..=60_000),
            default: "10",
            meaning: "a worker that does not return to its event loop for this long is stalled: other workers serve its queue",
        },
    },
    FileKey {
        argument: None,
        on_reload: OnReload::Waits,
        option: SpecOption {
            key: "steering_pins",
            values: Values::Text { form: "a directory", pattern: "." },
            default: bbq_listen::STEERING_PINS_DEFAULT,
            meaning: "where `bbq listen-setup` has pinned programs for `steering=load`. If none are pinned, the server uses \
                      programs of its own",
        },
    },
    FileKey {
        argument: Some("ADDR|off"),
        on_reload: OnReload::Waits,
        option: SpecOption {
            key: "admin",
            values: Values::Text {
                form: "address and port in numbers, or off",
                pattern: "^(off|.+:[0-9]+)$",
            },
            default: ADMIN_DEFAULT,
            meaning: "where the server shows its page, and answers `bbq status`, `bbq top`, `bbq tail`, and HTTP requests for /status, /history, /tail, \
                      /configuration, /metrics, /health, /readyz and /livez",
        },
    },
    FileKey {
        argument: None,
        on_reload: OnReload::Waits,
        option: SpecOption {
            key: "admin_token_file",
            values: Values::Text { form: "PATH, or none", pattern: "." },
            default: ADMIN_TOKENS_DEFAULT,
            meaning: "a file of tokens, as listeners have: the admin serves only requests with one of these tokens. Required if `admin` is not \
                      on loopback",
        },
    },
    FileKey {
        argument: Some("ADDR|off"),
        on_reload: OnReload::Waits,
        option: SpecOption {
            key: "probe",
            values: Values::Text {
                form: "address and port in numbers, or off",
                pattern: "^(off|.+:[0-9]+)$",
            },
            default: OFF,
            meaning: "one more address for /livez and /readyz, and nothing else. It needs no token, so other machines can probe the server \
                      while `admin` stays on loopback",
        },
    },
    FileKey {
        argument: None,
        on_reload: OnReload::Applies,
        option: SpecOption {
            key: "drain_timeout_seconds",
            values: Values::Number(0..=u64::MAX),
            default: "10",
            meaning: "how long a stop waits for the sinks to empty the spool; the next start delivers the remaining messages",
        },
    },
    FileKey {
        argument: None,
        on_reload: OnReload::Applies,
        option: SpecOption {
            key: "upgrade_timeout_seconds",
            values: Values::Number(1..=u64::MAX),
            default: "60",
            meaning: "how long an upgrade waits for the new program to prepare, and again for it to serve. If the new program is \
                      late or fails, the old program continues",
        },
    },
    FileKey {
        argument: None,
        on_reload: OnReload::Applies,
        option: SpecOption {
            key: "hello_timeout_seconds",
            values: Values::Number(1..=TIMEOUT_SECONDS_MAX),
            default: "10",
            meaning: "how long a bbq client may take from its connection to a complete hello, and an http client to the complete \
                      head of its next request",
        },
    },
    FileKey {
        argument: None,
        on_reload: OnReload::Applies,
        option: SpecOption {
            key: "batch_timeout_seconds",
            values: Values::Number(1..=TIMEOUT_SECONDS_MAX),
            default: "30",
            meaning: "how long a bbq client may send nothing in the middle of a batch or leave replies unread, and how long an \
                      http client may send nothing in the middle of a body",
        },
    },
    FileKey {
        argument: None,
        on_reload: OnReload::Applies,
        option: SpecOption {
            key: "evict_idle_seconds",
            values: Values::Number(1..=TIMEOUT_SECONDS_MAX),
            default: "10",
            meaning: "how long a connection must be idle before it may be closed to accept a new one",
        },
    },
    FileKey {
        argument: None,
        on_reload: OnReload::Applies,
        option: SpecOption {
            key: "unfinished_bytes_max",
            values: Values::Size(UNFINISHED_BYTES_PER_WORKER_MIN..=UNFINISHED_BYTES_MAX),
            default: "512MiB, or 64MiB per worker if that is more; less if the control group or the machine has little memory",
            meaning: "memory of unfinished batches and messages, at least 4MiB per worker. A batch that is larger than a worker's share is refused",
        },
    },
    FileKey {
        argument: None,
        on_reload: OnReload::Applies,
        option: SpecOption {
            key: "spool.bytes_max",
            values: Values::Size(2 * SEGMENT_BYTES_MIN..=u64::MAX),
            default: "10GiB",
            meaning: "the size of all segments together, including space allocated ahead; at least 2 segments per worker",
        },
    },
    FileKey {
        argument: None,
        on_reload: OnReload::Applies,
        option: SpecOption {
            key: "spool.segment_bytes",
            values: Values::Size(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX),
            default: "64MiB, halved until spool.bytes_max holds 2 segments per worker",
            meaning: "the size of one file of the spool. Each worker allocates a file for its first message",
        },
    },
    FileKey {
        argument: None,
        on_reload: OnReload::Applies,
        option: SpecOption {
            key: "spool.flush_interval_ms",
            values: Values::Number(0..=10_000),
            default: "10",
            meaning: "how long messages that no client waits for may collect before they are written and synced. A crash \
                      of the server usually loses at most the messages of this time",
        },
    },
];

/// The key with this name.
pub(super) fn file_key(name: &str) -> Option<&'static FileKey> {
    FILE_KEYS.iter().find(|key| key.option.key == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_table_stand_behind_all_others() {
        assert!(FILE_KEYS.is_sorted_by_key(|key| key.option.key.contains('.')));
    }
}
