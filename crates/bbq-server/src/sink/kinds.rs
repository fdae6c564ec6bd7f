//! Every kind of sink. A new kind is a file beside this one, and a line here.

use super::kind::Kind;
use super::{exec, forward, http, null, text};

/// In the order in which help shows them.
pub static SINK_KINDS: [&Kind; 7] = [
    &text::target::FILE,
    &text::target::STDOUT,
    &forward::FORWARD,
    &http::HTTP,
    &http::HTTPS,
    &exec::EXEC,
    &null::NULL,
];
