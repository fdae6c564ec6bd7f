//! The names of the files of a sink.

use bbq_wire::batch::crc32c;

/// A readable name for a file or a directory of a sink. Each sink gets a different name.
#[must_use]
pub fn file_name_of(sink: &str) -> String {
    let readable: String =
        sink.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).take(80).collect();
    format!("{readable}-{:08x}", crc32c(sink.as_bytes()))
}
