//! OTLP logs: the body of a request becomes messages, one for each log record.

use bbq_format::otlp::{JSON_BYTES_MAX, from_json};
use bbq_stored::DropReason;
use bbq_wire::limits::BATCH_BODY_BYTES_MAX;
use bbq_wire::otlp::{SplitError, SplitLimits, split};

use super::body::HeldBody;
use super::messages::{Messages, Split};
use super::refused::Refused;
use super::route::LogsEncoding;
use super::source::Source;

/// Maximum bytes of all log records of a request, each with its resource and scope: they go into one batch.
const RECORDS_BYTES_MAX: usize = BATCH_BODY_BYTES_MAX as usize;

/// The log records of a request.
pub(super) struct Logs {
    pub(super) messages: Messages,
    /// Log records that were left out because they are too long.
    pub(super) rejected: u32,
}

impl LogsEncoding {
    /// The longest body.
    pub(super) fn bytes_max(self) -> usize {
        match self {
            LogsEncoding::Protobuf => BATCH_BODY_BYTES_MAX as usize,
            LogsEncoding::Json => JSON_BYTES_MAX,
        }
    }
}

impl Source {
    /// Cuts the body of a request into log records. The memory of the result is counted in place of the body's.
    pub(super) fn logs(&self, encoding: LogsEncoding, mut body: HeldBody) -> Result<Logs, Refused> {
        let mut has_unknown = false;
        if encoding == LogsEncoding::Json {
            let converted = from_json(&body.bytes).map_err(|error| {
                Refused::Logs(format!(
                    "{error} (OTLP in JSON is described at opentelemetry.io/docs/specs/otlp)"
                ))
            })?;
            has_unknown = converted.has_unknown;
            body.set(converted.request)?;
        }
        let limits = SplitLimits { record_bytes_max: self.message_bytes_max(), bytes_max: RECORDS_BYTES_MAX };
        let mut records = Vec::with_capacity(body.bytes.len());
        let split = split(&body.bytes, limits, &mut records).map_err(|error| match error {
            SplitError::Malformed(why) => {
                Refused::Logs(format!("it is not an ExportLogsServiceRequest: {why}"))
            }
            SplitError::TooLarge { bytes_max } => Refused::LogsTooLarge { bytes_max },
        })?;
        // Taken would mean that messages are stored.
        if split.records + split.too_long == 0 && (has_unknown || split.has_unknown) {
            return Err(Refused::Logs(
                "it has no log records, and fields that an ExportLogsServiceRequest does not have".to_owned(),
            ));
        }
        body.set(records)?;
        self.listener().ledger.add_dropped(DropReason::Oversize, split.too_long.into());
        Ok(Logs { messages: Messages { body, split: Split::Logs }, rejected: split.too_long })
    }
}
