//! Some kinds of sinks, for the tests of this crate: it knows none.

use bbq_sink::{Kinds, NULL};
use bbq_sink_file::{FILE, STDOUT};
use bbq_sink_http::OTLP_HTTP;

pub(crate) static KINDS: Kinds = Kinds { present: &[&FILE, &STDOUT, &OTLP_HTTP, &NULL], left_out: &[] };
