//! The attributes of a batch, behind its records: the peers of the records, why they were rejected, where they were received first,
//! which numbers before them will never come, and what is known of all records or of each.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::limits::{FIELD_NAME_BYTES_MAX, FIELD_VALUE_BYTES_MAX, FIELDS_MAX};
use crate::{BatchError, varint};

/// Key of the peers attribute.
const KEY_PEERS: u32 = 1;
/// Key of the rejection attribute.
const KEY_REJECTION: u32 = 2;
/// Key of the origin attribute.
const KEY_ORIGIN: u32 = 3;
/// Key of the attribute that gives numbers up.
const KEY_GIVEN_UP: u32 = 4;
/// Key of the fields that all records have in common.
const KEY_FIELDS: u32 = 5;
/// Key of the attribute with the time and the output of each record.
const KEY_DETAILS: u32 = 6;
/// Key of the attribute with the fields that each record has of its own.
const KEY_RECORD_FIELDS: u32 = 7;

/// Bytes of one encoded [`Detail`]: output, time.
pub(super) const DETAIL_BYTES: usize = 1 + 8;

/// How the first server received a batch that another server passes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin<'a> {
    /// When, in nanoseconds since 1970-01-01 UTC.
    pub received_ns: u64,
    /// The name of its listener.
    pub listener: &'a str,
}

/// Which output of a process wrote a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// Unknown.
    #[default]
    Unknown,
    /// Its standard output.
    Stdout,
    /// Its standard error.
    Stderr,
}

/// What the log of a container says of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    /// When the record was written, in nanoseconds since 1970-01-01 UTC; 0 if that is unknown.
    pub time_ns: u64,
    /// What wrote it.
    pub output: Output,
}

impl Detail {
    pub(super) fn encode(self, out: &mut Vec<u8>) {
        out.push(match self.output {
            Output::Unknown => 0,
            Output::Stdout => 1,
            Output::Stderr => 2,
        });
        out.extend_from_slice(&self.time_ns.to_le_bytes());
    }
}

/// Iterates the details of a batch, one for each record, or none.
#[derive(Clone, Debug, Default)]
pub struct Details<'a> {
    rest: &'a [u8],
}

impl<'a> Details<'a> {
    /// Those of the first `records` records, encoded; empty if there are none.
    pub(super) fn first(&self, records: u32) -> &'a [u8] {
        self.rest.get(..records as usize * DETAIL_BYTES).unwrap_or_default()
    }

    /// Skips `records` records.
    pub(super) fn pass_over(&mut self, records: u32) {
        self.rest = self.rest.get(records as usize * DETAIL_BYTES..).unwrap_or_default();
    }
}

impl Iterator for Details<'_> {
    type Item = Detail;

    fn next(&mut self) -> Option<Detail> {
        let (output, rest) = self.rest.split_first()?;
        let (time, rest) = rest.split_first_chunk()?;
        self.rest = rest;
        let output = match output {
            1 => Output::Stdout,
            2 => Output::Stderr,
            _ => Output::Unknown,
        };
        Some(Detail { time_ns: u64::from_le_bytes(*time), output })
    }
}

/// Iterates the fields that all records of a batch have in common, by name and value.
#[derive(Clone, Debug, Default)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Of encoded fields.
    pub(super) fn of(rest: &'a [u8]) -> Fields<'a> {
        Fields { rest }
    }

    /// What is left of them, encoded.
    pub(super) fn encoded(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<(&'a str, &'a str)> {
        let mut text = || {
            let bytes = varint::take(&mut self.rest)? as usize;
            let (text, rest) = self.rest.split_at_checked(bytes)?;
            self.rest = rest;
            std::str::from_utf8(text).ok()
        };
        Some((text()?, text()?))
    }
}

/// Where a record came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Unknown.
    Unnamed,
    /// A process of this machine, by a unix socket: ids as the receiver's kernel tells them. A process that the receiver cannot see
    /// has the pid 0.
    Process {
        /// Its process id.
        pid: u32,
        /// The user that it ran as.
        uid: u32,
        /// The group that it ran as.
        gid: u32,
    },
    /// An internet address and port.
    Inet(SocketAddr),
}

impl Peer {
    /// Writes the kind, and address and port, or the three ids (numbers little-endian, as everywhere here).
    pub fn encode(self, out: &mut Vec<u8>) {
        match self {
            Peer::Unnamed => out.push(0),
            Peer::Process { pid, uid, gid } => {
                out.push(1);
                [pid, uid, gid].iter().for_each(|id| out.extend_from_slice(&id.to_le_bytes()));
            }
            Peer::Inet(SocketAddr::V4(address)) => {
                out.push(4);
                out.extend_from_slice(&address.ip().octets());
                out.extend_from_slice(&address.port().to_le_bytes());
            }
            Peer::Inet(SocketAddr::V6(address)) => {
                out.push(6);
                out.extend_from_slice(&address.ip().octets());
                out.extend_from_slice(&address.port().to_le_bytes());
            }
        }
    }

    /// Reads one peer from the front of `input` and moves `input` behind it.
    #[must_use]
    pub fn decode(input: &mut &[u8]) -> Option<Peer> {
        let (kind, rest) = input.split_first()?;
        let (peer, rest) = match kind {
            0 => (Peer::Unnamed, rest),
            1 => {
                let (pid, rest) = rest.split_first_chunk()?;
                let (uid, rest) = rest.split_first_chunk()?;
                let (gid, rest) = rest.split_first_chunk()?;
                let [pid, uid, gid] = [pid, uid, gid].map(|id| u32::from_le_bytes(*id));
                (Peer::Process { pid, uid, gid }, rest)
            }
            4 => {
                let (address, rest) = rest.split_first_chunk::<4>()?;
                let (port, rest) = rest.split_first_chunk::<2>()?;
                (
                    Peer::Inet(SocketAddr::new(
                        IpAddr::V4(Ipv4Addr::from(*address)),
                        u16::from_le_bytes(*port),
                    )),
                    rest,
                )
            }
            6 => {
                let (address, rest) = rest.split_first_chunk::<16>()?;
                let (port, rest) = rest.split_first_chunk::<2>()?;
                (
                    Peer::Inet(SocketAddr::new(
                        IpAddr::V6(Ipv6Addr::from(*address)),
                        u16::from_le_bytes(*port),
                    )),
                    rest,
                )
            }
            _ => return None,
        };
        *input = rest;
        Some(peer)
    }
}

/// The runs of the peers attribute: how many records in a row came from whom.
#[derive(Clone, Debug, Default)]
pub struct PeerRuns<'a> {
    runs: Runs<'a>,
    /// Records of the first run that were skipped; less than it has.
    passed: u32,
}

impl PeerRuns<'_> {
    /// Skips `records` records.
    pub(super) fn pass_over(&mut self, mut records: u32) {
        let mut next = self.clone();
        while let Some((run, _)) = next.next() {
            if records < run {
                self.passed += records;
                return;
            }
            records -= run;
            *self = next.clone();
        }
    }
}

impl Iterator for PeerRuns<'_> {
    type Item = (u32, Peer);

    #[inline]
    fn next(&mut self) -> Option<(u32, Peer)> {
        let (records, peer) = self.runs.next()?;
        Some((records.saturating_sub(std::mem::take(&mut self.passed)), peer))
    }
}

/// The encoded runs.
#[derive(Clone, Debug, Default)]
struct Runs<'a> {
    rest: &'a [u8],
}

impl Iterator for Runs<'_> {
    type Item = (u32, Peer);

    fn next(&mut self) -> Option<(u32, Peer)> {
        let mut rest = self.rest;
        let run = (varint::take(&mut rest)?, Peer::decode(&mut rest)?);
        // Advances by whole runs only; `read` checks the rest of a cut one.
        self.rest = rest;
        Some(run)
    }
}

/// Appends the peers attribute, `runs` being its encoded value.
pub(super) fn put_peers(runs: &[u8], out: &mut Vec<u8>) {
    varint::put(KEY_PEERS, out);
    varint::put(u32::try_from(runs.len()).unwrap_or(u32::MAX), out);
    out.extend_from_slice(runs);
}

/// Appends one run to the value of a peers attribute.
pub(super) fn put_run(records: u32, peer: Peer, runs: &mut Vec<u8>) {
    varint::put(records, runs);
    peer.encode(runs);
}

/// Appends the rejection attribute.
pub(super) fn put_rejection(why: &str, out: &mut Vec<u8>) {
    varint::put(KEY_REJECTION, out);
    varint::put(u32::try_from(why.len()).unwrap_or(u32::MAX), out);
    out.extend_from_slice(why.as_bytes());
}

/// Appends the origin attribute.
pub(super) fn put_origin(origin: &Origin<'_>, out: &mut Vec<u8>) {
    let time = origin.received_ns.to_le_bytes();
    varint::put(KEY_ORIGIN, out);
    varint::put(u32::try_from(time.len() + origin.listener.len()).unwrap_or(u32::MAX), out);
    out.extend_from_slice(&time);
    out.extend_from_slice(origin.listener.as_bytes());
}

/// Appends the attribute that gives up `numbers` numbers before the first record.
pub(super) fn put_given_up(numbers: u64, out: &mut Vec<u8>) {
    let value = numbers.to_le_bytes();
    varint::put(KEY_GIVEN_UP, out);
    varint::put(value.len() as u32, out);
    out.extend_from_slice(&value);
}

/// Appends the fields that all records have in common. What is over the limits is cut off or left out.
pub(super) fn put_fields<'a>(fields: impl Iterator<Item = (&'a str, &'a str)>, out: &mut Vec<u8>) {
    let mut value = Vec::new();
    encode_fields(fields, &mut value);
    if !value.is_empty() {
        varint::put(KEY_FIELDS, out);
        varint::put(value.len() as u32, out);
        out.extend_from_slice(&value);
    }
}

/// Appends names and values. What is over the limits is cut off or left out.
pub(super) fn encode_fields<'a>(fields: impl Iterator<Item = (&'a str, &'a str)>, value: &mut Vec<u8>) {
    for (name, text) in fields.take(FIELDS_MAX) {
        for (text, most) in [(name, FIELD_NAME_BYTES_MAX), (text, FIELD_VALUE_BYTES_MAX)] {
            let text = &text[..text.floor_char_boundary(most)];
            varint::put(text.len() as u32, value);
            value.extend_from_slice(text.as_bytes());
        }
    }
}

/// Appends the attribute with the fields of each record, `value` being its encoded value.
pub(super) fn put_record_fields(value: &[u8], out: &mut Vec<u8>) {
    varint::put(KEY_RECORD_FIELDS, out);
    varint::put(u32::try_from(value.len()).unwrap_or(u32::MAX), out);
    out.extend_from_slice(value);
}

/// Appends the attribute with the details of all records, `details` being its encoded value.
pub(super) fn put_details(details: &[u8], out: &mut Vec<u8>) {
    varint::put(KEY_DETAILS, out);
    varint::put(u32::try_from(details.len()).unwrap_or(u32::MAX), out);
    out.extend_from_slice(details);
}

/// Bytes that [`put_given_up`] appends.
pub(super) const GIVEN_UP_BYTES: usize = 1 + 1 + 8;

/// What is known of each record: of every one, or of none. The fields are the value of their attribute, unchecked.
pub(super) type OfEach<'a> = (PeerRuns<'a>, Details<'a>, &'a [u8]);

/// Reads all attributes, and returns what is known of each of the `records`.
///
/// # Errors
/// [`BatchError::Attributes`] when a length, or a known value, does not fit.
pub(super) fn read(mut attributes: &[u8], records: u32) -> Result<OfEach<'_>, BatchError> {
    let (mut peers, mut details, mut fields): (&[u8], &[u8], &[u8]) = (&[], &[], &[]);
    while !attributes.is_empty() {
        let (key, value) = take(&mut attributes).ok_or(BatchError::Attributes)?;
        match key {
            KEY_PEERS => peers = value,
            KEY_DETAILS => details = value,
            KEY_RECORD_FIELDS => fields = value,
            _ => {}
        }
    }
    if !details.is_empty() && details.len() != records as usize * DETAIL_BYTES {
        return Err(BatchError::Attributes);
    }
    let mut walk = Runs { rest: peers };
    let named: u64 = walk.by_ref().map(|(records, _)| u64::from(records)).sum();
    if walk.rest.is_empty() && (peers.is_empty() || named == u64::from(records)) {
        let peers = PeerRuns { runs: Runs { rest: peers }, passed: 0 };
        Ok((peers, Details { rest: details }, fields))
    } else {
        Err(BatchError::Attributes)
    }
}

/// The value of the rejection attribute, if it is there and is a text.
pub(super) fn rejection(attributes: &[u8]) -> Option<&str> {
    std::str::from_utf8(last(attributes, KEY_REJECTION)?).ok()
}

/// The value of the origin attribute, if it is there, long enough, and ends with a text.
pub(super) fn origin(attributes: &[u8]) -> Option<Origin<'_>> {
    let (time, listener) = last(attributes, KEY_ORIGIN)?.split_first_chunk()?;
    Some(Origin { received_ns: u64::from_le_bytes(*time), listener: std::str::from_utf8(listener).ok()? })
}

/// How many numbers directly before the first record will never come; 0 if the batch does not say.
pub(super) fn given_up(attributes: &[u8]) -> u64 {
    let value = last(attributes, KEY_GIVEN_UP).and_then(|value| value.first_chunk());
    value.map_or(0, |value| u64::from_le_bytes(*value))
}

/// The fields that all records have in common.
pub(super) fn fields(attributes: &[u8]) -> Fields<'_> {
    Fields { rest: last(attributes, KEY_FIELDS).unwrap_or_default() }
}

/// The value of the attribute with the fields of each record.
pub(super) fn record_fields(attributes: &[u8]) -> &[u8] {
    last(attributes, KEY_RECORD_FIELDS).unwrap_or_default()
}

/// The value of the last attribute with this key.
fn last(mut attributes: &[u8], key: u32) -> Option<&[u8]> {
    let all = std::iter::from_fn(|| take(&mut attributes));
    all.filter(|(found, _)| *found == key).last().map(|(_, value)| value)
}

/// Takes an attribute from the front.
fn take<'a>(attributes: &mut &'a [u8]) -> Option<(u32, &'a [u8])> {
    let key = varint::take(attributes)?;
    let bytes = varint::take(attributes)? as usize;
    let (value, rest) = attributes.split_at_checked(bytes)?;
    *attributes = rest;
    Some((key, value))
}
