//! Messages as sinks write them: raw, as JSON with all that is known about them, in the envelopes of some servers, or as log records of
//! OTLP.
//!
//! A [`Formatter`] appends the messages of a batch to a buffer. `names` makes names of destinations from fields of messages. `syslog` reads the header of a syslog message, and `otlp` decodes a record
//! of OTLP logs.
//!
//! Not here: which format a sink has, and what it does with the bytes (bbq-server).
//! Invariant: no message makes this crate panic, and a message that cannot be read is written as it came.

#![forbid(unsafe_code)]

mod format;
pub mod journal;
mod labels;
pub mod names;
pub mod otlp;
mod parsed;
mod reader_fields;
pub mod syslog;

pub use format::{BatchMessage, BatchTexts, Content, Envelope, Format, Formatter};
pub use labels::{FieldLabels, LABEL_VALUES, Labels};
pub use reader_fields::FIELD_ALIASES;

/// Checks of what is shown, for the fuzz targets.
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing {
    /// Shows a record of OTLP logs in both formats. Returns whether it is one.
    pub fn otlp_shown(record: &[u8]) -> bool {
        let mut out = Vec::new();
        crate::otlp::put_body(record, &mut out);
        let Some(fields) = crate::otlp::OtlpFields::of(record) else { return false };
        assert!(serde_json::to_writer(&mut out, &fields).is_ok());
        true
    }

    /// Reads the header of a syslog message, and shows its fields as sinks do.
    ///
    /// # Panics
    /// A field does not stand in the message, or cannot be shown.
    pub fn syslog_shown(message: &[u8]) {
        let fields = crate::syslog::read(message, 0);
        assert!(serde_json::to_vec(&fields).is_ok());
        let text = String::from_utf8_lossy(message);
        // A time, a zone and Cisco's numbers stand in front of the text, and nothing behind it but zero bytes and one line feed.
        let end = fields.msg.as_deref().unwrap_or_default();
        let whole = text.trim_end_matches('\0');
        assert!(whole.strip_suffix('\n').unwrap_or(whole).ends_with(end), "{end:?} in {text:?}");
        for field in [&fields.hostname, &fields.appname, &fields.procid, &fields.msgid, &fields.msg] {
            assert!(
                field.as_ref().is_none_or(|field| text.contains(field.as_str())),
                "{field:?} in {text:?}"
            );
        }
    }
}
