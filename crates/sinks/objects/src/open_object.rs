//! An object that is being filled with the groups of one lane.
//!
//! Its messages are compressed as they come; of its groups only the places are kept.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bbq_format::Formatter;
use bbq_sink::{PartLimits, PendingGroup, Settled};
use bbq_spool::Scratch;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer};

use super::footer::Footer;

/// Messages that are formatted at once, in bytes.
const PART_BYTES: usize = 256 * 1024;
const PART: PartLimits = PartLimits { records: u64::MAX, bytes: PART_BYTES };
/// The output grows by so much at a time.
const ROOM_BYTES: usize = 64 * 1024;

/// See the module.
pub(super) struct OpenObject {
    encoder: CCtx<'static>,
    packed: Vec<u8>,
    pub(super) groups: Vec<Settled>,
    /// When the first message came.
    pub(super) since: Duration,
    folder: Option<String>,
}

/// An object that gets no more messages.
pub(super) struct CutObject {
    pub(super) footer: Footer,
    /// The folder that it is written to, if it has one.
    pub(super) folder: Option<String>,
    /// The whole object.
    pub(super) bytes: Arc<[u8]>,
    pub(super) groups: Vec<Settled>,
}

impl OpenObject {
    pub(super) fn new(level: i32, since: Duration, folder: Option<String>) -> io::Result<OpenObject> {
        let mut encoder =
            CCtx::try_create().ok_or_else(|| io::Error::other("no memory for a compressed object"))?;
        encoder.set_parameter(CParameter::CompressionLevel(level)).map_err(failed)?;
        encoder.set_parameter(CParameter::ChecksumFlag(true)).map_err(failed)?;
        Ok(OpenObject { encoder, packed: Vec::new(), groups: Vec::new(), since, folder })
    }

    /// Adds the messages of a group that were not settled before. After an error the object is of no use.
    pub(super) fn append(
        &mut self,
        group: &PendingGroup,
        formatter: &mut Formatter,
        scratch: &mut Scratch,
    ) -> io::Result<()> {
        let mut place = group.place();
        loop {
            let part = group.part(place, PART, formatter, scratch);
            place = part.behind;
            if part.records == 0 {
                break;
            }
            self.write(&part.text)?;
        }
        group.confirm_until(place);
        self.groups.push(group.settled());
        Ok(())
    }

    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        let mut input = InBuffer::around(text);
        while input.pos < text.len() {
            self.packed.reserve(ROOM_BYTES);
            let at = self.packed.len();
            let mut output = OutBuffer::around_pos(&mut self.packed, at);
            self.encoder.compress_stream(&mut output, &mut input).map_err(failed)?;
        }
        Ok(())
    }

    /// Compressed bytes so far; the compressor holds back some more.
    pub(super) fn bytes(&self) -> usize {
        self.packed.len()
    }

    /// Ends the object. `from` is where the one before it in the lane ends.
    pub(super) fn cut(mut self, lane: u32, from: u64) -> io::Result<CutObject> {
        loop {
            self.packed.reserve(ROOM_BYTES);
            let at = self.packed.len();
            let mut output = OutBuffer::around_pos(&mut self.packed, at);
            if self.encoder.end_stream(&mut output).map_err(failed)? == 0 {
                break;
            }
        }
        let last = self.groups.last();
        let footer = Footer {
            lane,
            from,
            until: last.map_or(from, |group| group.until.position),
            record: last.map_or(0, |group| group.until.record),
            received_ns: last.map_or(0, |group| group.received_ns),
        };
        self.packed.extend_from_slice(&footer.bytes());
        Ok(CutObject { footer, folder: self.folder, bytes: self.packed.into(), groups: self.groups })
    }
}

fn failed(code: usize) -> io::Error {
    io::Error::other(format!("cannot compress an object: {}", zstd_safe::get_error_name(code)))
}
