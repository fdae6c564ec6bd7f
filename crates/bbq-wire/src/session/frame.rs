//! The control frame: header, checksum, and the fields of a payload. The modules of the frames say what the fields mean.

use super::SessionError;
use super::format::{CRC_FROM, MAGIC, VERSION};
use crate::batch::crc32c;
use crate::limits::{CONTROL_HEADER_BYTES, CONTROL_PAYLOAD_BYTES_MAX};

/// What a control frame says. Numbers are append-only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Hello = 1,
    Welcome = 2,
    Ack = 3,
    Refusal = 4,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        [Kind::Hello, Kind::Welcome, Kind::Ack, Kind::Refusal].into_iter().find(|kind| *kind as u8 == byte)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Hello => "hello",
            Kind::Welcome => "welcome",
            Kind::Ack => "ack",
            Kind::Refusal => "refusal",
        }
    }
}

/// A control frame whose checksum fits, or how many bytes it takes to see one.
pub(super) enum FrameStep<'a> {
    NeedMore { at_least: usize },
    Frame { kind: Kind, payload: &'a [u8], consumed: usize },
}

/// Reads the control frame at the front of `input`. The magic is judged as soon as four bytes are there.
pub(super) fn read(input: &[u8]) -> Result<FrameStep<'_>, SessionError> {
    if let Some(magic) = input.first_chunk::<4>()
        && *magic != MAGIC
    {
        return Err(SessionError::Magic { found: *magic });
    }
    let Some(header) = input.first_chunk::<CONTROL_HEADER_BYTES>() else {
        return Ok(FrameStep::NeedMore { at_least: CONTROL_HEADER_BYTES });
    };
    let [_, _, _, _, c0, c1, c2, c3, l0, l1, l2, l3, kind, version, r0, r1] = *header;
    let payload_bytes = u32::from_le_bytes([l0, l1, l2, l3]);
    if payload_bytes > CONTROL_PAYLOAD_BYTES_MAX {
        return Err(SessionError::PayloadTooLarge { bytes: payload_bytes, limit: CONTROL_PAYLOAD_BYTES_MAX });
    }
    let consumed = CONTROL_HEADER_BYTES + payload_bytes as usize;
    let Some(frame) = input.get(..consumed) else {
        return Ok(FrameStep::NeedMore { at_least: consumed });
    };
    // The checksum first: a flipped bit is not to be reported as another version.
    let (found, computed) = (u32::from_le_bytes([c0, c1, c2, c3]), crc32c(&frame[CRC_FROM..]));
    if found != computed {
        return Err(SessionError::Checksum { found, computed });
    }
    if version != VERSION {
        return Err(SessionError::Version { found: version });
    }
    let kind = Kind::of(kind).ok_or(SessionError::Kind { found: kind })?;
    let reserved = u16::from_le_bytes([r0, r1]);
    if reserved != 0 {
        return Err(field(kind, "reserved", u64::from(reserved), "0"));
    }
    Ok(FrameStep::Frame { kind, payload: &frame[CONTROL_HEADER_BYTES..], consumed })
}

/// What kind of frame `input` seems to begin with: its checksum is not looked at. `None` before its header is whole.
#[inline]
pub(super) fn kind_at(input: &[u8]) -> Option<Kind> {
    if !input.starts_with(&MAGIC) {
        return None;
    }
    let [.., kind, _version, 0, 0] = *input.first_chunk::<CONTROL_HEADER_BYTES>()? else { return None };
    Kind::of(kind)
}

/// Appends a frame; `payload` appends its payload, which must stay within [`CONTROL_PAYLOAD_BYTES_MAX`].
pub(super) fn encode(kind: Kind, out: &mut Vec<u8>, payload: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; CONTROL_HEADER_BYTES]);
    payload(out);
    seal(kind, &mut out[start..]);
}

/// Writes the header of a frame whose payload stands in place.
pub(super) fn seal(kind: Kind, frame: &mut [u8]) {
    let payload_bytes = frame.len() - CONTROL_HEADER_BYTES;
    debug_assert!(payload_bytes <= CONTROL_PAYLOAD_BYTES_MAX as usize, "a frame no receiver would take");
    frame[0..4].copy_from_slice(&MAGIC);
    frame[8..12].copy_from_slice(&(payload_bytes as u32).to_le_bytes());
    frame[12..16].copy_from_slice(&[kind as u8, VERSION, 0, 0]);
    let crc = crc32c(&frame[CRC_FROM..]);
    frame[4..8].copy_from_slice(&crc.to_le_bytes());
}

pub(super) fn field(kind: Kind, field: &'static str, found: u64, allowed: &'static str) -> SessionError {
    SessionError::Field { frame: kind.name(), field, found, allowed }
}

/// Takes the fields of a payload in their order. What is left at the end belongs to a later version.
pub(super) struct Fields<'a> {
    kind: Kind,
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn of(kind: Kind, payload: &'a [u8]) -> Fields<'a> {
        Fields { kind, rest: payload }
    }

    pub(super) fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], SessionError> {
        let (value, rest) = self.rest.split_first_chunk::<N>().ok_or_else(|| self.short(field))?;
        self.rest = rest;
        Ok(*value)
    }

    pub(super) fn u8(&mut self, field: &'static str) -> Result<u8, SessionError> {
        Ok(u8::from_le_bytes(self.array(field)?))
    }

    pub(super) fn u16(&mut self, field: &'static str) -> Result<u16, SessionError> {
        Ok(u16::from_le_bytes(self.array(field)?))
    }

    pub(super) fn u32(&mut self, field: &'static str) -> Result<u32, SessionError> {
        Ok(u32::from_le_bytes(self.array(field)?))
    }

    pub(super) fn u64(&mut self, field: &'static str) -> Result<u64, SessionError> {
        Ok(u64::from_le_bytes(self.array(field)?))
    }

    /// A field that an earlier version does not write.
    pub(super) fn optional_u64(&mut self) -> Option<u64> {
        let (value, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u64::from_le_bytes(*value))
    }

    /// The same, of 16 bits.
    pub(super) fn optional_u16(&mut self) -> Option<u16> {
        let (value, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u16::from_le_bytes(*value))
    }

    /// The same, of 8 bits.
    pub(super) fn optional_u8(&mut self) -> Option<u8> {
        let (value, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*value)
    }

    /// Text is for people: what is not UTF-8, or would be obeyed by a terminal, is shown as such, not refused.
    pub(super) fn text(&mut self, field: &'static str, bytes: usize) -> Result<String, SessionError> {
        Ok(crate::shown::shown(&String::from_utf8_lossy(self.bytes(field, bytes)?)).into_owned())
    }

    pub(super) fn bytes(&mut self, field: &'static str, bytes: usize) -> Result<&'a [u8], SessionError> {
        let (value, rest) = self.rest.split_at_checked(bytes).ok_or_else(|| self.short(field))?;
        self.rest = rest;
        Ok(value)
    }

    fn short(&self, field: &'static str) -> SessionError {
        SessionError::Short { frame: self.kind.name(), field }
    }
}

/// The front of `text` that has at most `bytes_max` bytes and ends between two characters.
pub(super) fn cut_text(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// Appends a name: one byte of length, then at most 255 bytes.
pub(super) fn put_name(name: &str, out: &mut Vec<u8>) {
    let name = cut_text(name, crate::limits::NAME_BYTES_MAX);
    out.push(name.len() as u8);
    out.extend_from_slice(name.as_bytes());
}
