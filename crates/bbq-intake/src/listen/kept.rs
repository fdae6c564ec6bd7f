//! The options of a listener that its open sockets keep: a reload changes them for new listeners alone.

use super::spec::ListenSpec;

/// The option that says how connections are spread. Whether it has changed depends on the server's, too.
pub const DISTRIBUTION: &str = "distribution";

/// Whether two configurations of a listener differ in an option.
type Differs = fn(&ListenSpec, &ListenSpec) -> bool;

/// The others.
const KEPT: [(&str, Differs); 5] = [
    ("backlog", |old, new| old.backlog != new.backlog),
    ("defer_ms", |old, new| old.defer_accept != new.defer_accept),
    ("keepalive_seconds", |old, new| old.silence.keepalive != new.silence.keepalive),
    ("user_timeout_seconds", |old, new| old.silence.user_timeout != new.silence.user_timeout),
    ("receive_buffer_bytes", |old, new| old.receive_buffer_bytes != new.receive_buffer_bytes),
];

/// Whether open sockets keep this option.
pub fn is_kept(option: &str) -> bool {
    option == DISTRIBUTION || KEPT.iter().any(|(kept, _)| *kept == option)
}

/// The options that open sockets keep although the new configuration has others, but for the distribution.
pub fn kept_options(old: &ListenSpec, new: &ListenSpec) -> impl Iterator<Item = &'static str> {
    KEPT.iter().filter(move |(_, differs)| differs(old, new)).map(|(option, _)| *option)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listen::listen_options;

    #[test]
    fn each_is_an_option_of_listeners() {
        for (kept, _) in KEPT {
            assert!(listen_options().any(|option| option.key == kept), "{kept}");
        }
    }
}
