//! Every kind of sink. A new kind is a file beside this one, and a line here.

use super::kind::Kind;
use super::{exec, forward, http, null, text};

/// In the order in which help shows them.
pub static SINK_KINDS: [&Kind; 9] = [
    &text::target::FILE,
    &text::target::STDOUT,
    &forward::FORWARD,
    &forward::FORWARD_TLS,
    &forward::FORWARD_UNIX,
    &http::HTTP,
    &http::HTTPS,
    &exec::EXEC,
    &null::NULL,
];
