//! What a batch knows of each of its records.

use super::attributes::{self, Details, PeerRuns};
use super::record_fields::Places;
use crate::BatchError;

/// Of every record, or of none.
#[derive(Clone, Debug, Default)]
pub(super) struct OfRecords<'a> {
    pub(super) peers: PeerRuns<'a>,
    pub(super) details: Details<'a>,
    pub(super) fields: Places<'a>,
}

impl<'a> OfRecords<'a> {
    /// Reads the attributes of so many records.
    ///
    /// # Errors
    /// [`BatchError::Attributes`] when a length, or a known value, does not fit.
    #[inline]
    pub(super) fn read(attributes: &'a [u8], records: u32) -> Result<OfRecords<'a>, BatchError> {
        // Nearly all batches of clients have none.
        if attributes.is_empty() {
            return Ok(OfRecords::default());
        }
        let (peers, details, fields) = attributes::read(attributes, records)?;
        let fields = Places::read(fields, records).ok_or(BatchError::Attributes)?;
        Ok(OfRecords { peers, details, fields })
    }

    /// Skips `records` records.
    pub(super) fn pass_over(&mut self, records: u32) {
        self.peers.pass_over(records);
        self.details.pass_over(records);
        self.fields.pass_over(records);
    }
}
