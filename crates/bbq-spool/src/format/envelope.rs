//! The envelope of a batch: what this server adds to it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bbq_wire::Peer;

use super::bytes::{is_sealed, seal, u16_at, u32_at, u64_at};
use super::sizes::ENVELOPE_BYTES;

const MAGIC: [u8; 4] = *b"BBQE";

/// The name of the token to which a stream belongs, in the 24 bits that an envelope has room for: it tells names apart, and none of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NameMark(u32);

impl NameMark {
    /// The stream belongs to nobody.
    pub const NOBODY: NameMark = NameMark(0);
    const BITS: u32 = 24;

    /// That of a name.
    #[must_use]
    pub fn of(name: &str) -> NameMark {
        NameMark((bbq_wire::batch::crc32c(name.as_bytes()) >> (u32::BITS - Self::BITS)).max(1))
    }

    /// Reads what `Display` writes; `None` if it is none, or nobody's.
    #[must_use]
    pub fn parse(text: &str) -> Option<NameMark> {
        u32::from_str_radix(text, 16).ok().filter(|mark| (1..1 << Self::BITS).contains(mark)).map(NameMark)
    }
}

impl fmt::Display for NameMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:06x}", self.0)
    }
}

/// How a batch was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Index into the segment's sources.
    pub source: u16,
    /// Nanoseconds since 1970-01-01 UTC.
    pub received_ns: u64,
    /// The peer of its connection; unnamed if the batch names a peer for each record.
    pub peer: Peer,
    /// Whose stream it is of.
    pub name_mark: NameMark,
}

/// The group and the batch that an envelope belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Bytes of the batch behind it.
    pub batch_bytes: u32,
    /// The batch's own checksum.
    pub batch_crc: u32,
    /// The tag of its group.
    pub tag: u64,
}

impl Envelope {
    /// Writes the envelope of a batch.
    #[inline] // Once per batch: how the crate happens to be cut into parts must not cost a call here.
    #[must_use]
    pub fn encode(&self, binding: &Binding) -> [u8; ENVELOPE_BYTES] {
        let mut out = [0; ENVELOPE_BYTES];
        out[0..4].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&binding.batch_bytes.to_le_bytes());
        out[12..14].copy_from_slice(&self.source.to_le_bytes());
        out[16..24].copy_from_slice(&self.received_ns.to_le_bytes());
        match self.peer {
            Peer::Unnamed => {}
            Peer::Process { pid, uid, gid } => {
                out[14] = 1;
                out[24..28].copy_from_slice(&pid.to_le_bytes());
                out[28..32].copy_from_slice(&uid.to_le_bytes());
                out[32..36].copy_from_slice(&gid.to_le_bytes());
            }
            Peer::Inet(address) => {
                match address.ip() {
                    IpAddr::V4(ip) => {
                        out[14] = 4;
                        out[24..28].copy_from_slice(&ip.octets());
                    }
                    IpAddr::V6(ip) => {
                        out[14] = 6;
                        out[24..40].copy_from_slice(&ip.octets());
                    }
                }
                out[40..42].copy_from_slice(&address.port().to_le_bytes());
            }
        }
        let [low, middle, high, _] = self.name_mark.0.to_le_bytes();
        (out[15], out[46], out[47]) = (high, low, middle);
        out[42..46].copy_from_slice(&binding.batch_crc.to_le_bytes());
        out[48..56].copy_from_slice(&binding.tag.to_le_bytes());
        seal(&mut out);
        out
    }

    /// Reads the envelope at the front of `bytes`, and what it belongs to.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<(Envelope, Binding)> {
        let bytes = bytes.get(..ENVELOPE_BYTES)?;
        if !is_sealed(bytes, MAGIC) {
            return None;
        }
        let port = u16_at(bytes, 40);
        let peer = match bytes[14] {
            1 => Peer::Process { pid: u32_at(bytes, 24), uid: u32_at(bytes, 28), gid: u32_at(bytes, 32) },
            4 => Peer::Inet(SocketAddr::new(
                Ipv4Addr::new(bytes[24], bytes[25], bytes[26], bytes[27]).into(),
                port,
            )),
            6 => {
                let mut octets = [0; 16];
                octets.copy_from_slice(&bytes[24..40]);
                Peer::Inet(SocketAddr::new(Ipv6Addr::from(octets).into(), port))
            }
            _ => Peer::Unnamed,
        };
        let binding =
            Binding { batch_bytes: u32_at(bytes, 8), batch_crc: u32_at(bytes, 42), tag: u64_at(bytes, 48) };
        let name_mark = NameMark(u32::from_le_bytes([bytes[46], bytes[47], bytes[15], 0]));
        let (source, received_ns) = (u16_at(bytes, 12), u64_at(bytes, 16));
        Some((Envelope { source, received_ns, peer, name_mark }, binding))
    }

    /// The first bytes of an envelope, by which the next entry is found after damage.
    #[must_use]
    pub fn magic() -> [u8; 4] {
        MAGIC
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_peer_is_read_as_it_was_written() {
        let binding = Binding { batch_bytes: 80, batch_crc: 7, tag: 9 };
        for peer in [
            Peer::Unnamed,
            Peer::Process { pid: 1, uid: 1000, gid: u32::MAX },
            Peer::Inet(([192, 0, 2, 1], 514).into()),
            Peer::Inet(([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 6514).into()),
        ] {
            let envelope = Envelope { source: 3, received_ns: 5, peer, name_mark: NameMark::of("till-4") };
            assert_eq!(Envelope::decode(&envelope.encode(&binding)), Some((envelope, binding)));
        }
    }
}
