//! The option `format` of sinks that write one message per line.

use bbq_format::Format;
use bbq_spec::{SpecOption, Values};

/// The values of the option.
pub const FORMAT_WORDS: [(&str, Format); 2] = [("raw", Format::Raw), ("json", Format::Json)];

/// The option, with the default of a kind.
pub const fn format_option(default: &'static str) -> SpecOption {
    SpecOption {
        key: "format",
        values: Values::Words(&["raw", "json"]),
        default,
        meaning: "a message as received, on a line; or a JSON object with the message and its metadata",
    }
}
