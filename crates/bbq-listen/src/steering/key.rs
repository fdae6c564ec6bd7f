//! The key of a group's hash of senders.
//!
//! The hash is published, so without a key anybody can compute source ports that all get the same worker. The key is random: a set
//! of ports that is crafted for one key is spread over all workers by another. The hash is not cryptographic; the key is safe as long
//! as nobody outside of the server can tell which worker a sender gets.
//!
//! Invariant: `SenderHash::slot_of` computes what the instructions of `program` compute.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// The number of slots into which senders are divided. Each worker needs at least one slot. A program has at most 4,096
/// instructions, and needs at most three for each slot.
pub(crate) const SLOTS: usize = 1024;
pub(crate) const SLOT_BITS: u32 = SLOTS.ilog2();
const _: () = assert!(SLOTS.is_power_of_two() && SLOTS >= crate::WORKERS_MAX);

/// An odd constant that spreads its factor's bits (the golden ratio; Knuth 6.4).
pub(crate) const LAST_FACTOR: u32 = 0x9e37_79b1;
pub(crate) const FIRST_SHIFT: u32 = 16;
pub(crate) const SECOND_SHIFT: u32 = 15;

/// The secret with which a group hashes its senders: 128 bits. Each group draws its own, unless
/// [`GroupOptions::steering_key`](crate::GroupOptions::steering_key) has one.
///
/// A program that hands over its sockets hands over the key as well, or senders of datagrams change their workers.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use bbq_listen::{Group, SteeringKey};
///
/// let group = Group::at("udp://127.0.0.1:0")?.workers(2).open()?;
/// // The program that hands its sockets over sends these bytes with them.
/// let bytes = group.steering_key().to_bytes();
/// let options = Group::at("udp://127.0.0.1:0")?.steering_key(Some(SteeringKey::from_bytes(bytes)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct SteeringKey([u8; 16]);

impl SteeringKey {
    /// A new key.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn random() -> std::io::Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// The key that [`to_bytes`](Self::to_bytes) returned.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The key's bytes, for the program after an upgrade. Show them to nobody.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Debug for SteeringKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SteeringKey(secret)")
    }
}

/// A hash of addresses and ports: the sum of all 16-bit words, each multiplied by a secret number of its own, then mixed. For any two
/// senders the sums differ for nearly all keys (multiply-shift; Dietzfelbinger 1996).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SenderHash {
    /// For the words of an IPv6 address. An IPv4 address has the last two.
    pub(crate) words: [u32; 8],
    pub(crate) port: u32,
    pub(crate) sum: u32,
    /// Odd, so that no bit is lost.
    pub(crate) factor: u32,
    pub(crate) addend: u32,
    secret: u64,
}

impl SenderHash {
    pub(crate) fn new(key: &SteeringKey) -> Self {
        let bytes = u128::from_le_bytes(key.0);
        let (low, high) = (bytes as u64, (bytes >> u64::BITS) as u64);
        let mut counter = low;
        let mut next = || {
            counter = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
            (mix(mix(counter) ^ high) >> 32) as u32
        };
        Self {
            words: std::array::from_fn(|_| next()),
            port: next(),
            sum: next(),
            factor: next() | 1,
            addend: next(),
            secret: mix(low ^ mix(high)),
        }
    }

    /// A number for a sender, of which all bits are independent of its slot.
    pub(crate) fn number_of(&self, sender: SocketAddr) -> u64 {
        let (high, low) = match sender.ip().to_canonical() {
            IpAddr::V4(address) => (0, u64::from(u32::from(address))),
            IpAddr::V6(address) => {
                let bits = u128::from(address);
                ((bits >> u64::BITS) as u64, bits as u64)
            }
        };
        mix(mix(self.secret ^ high).wrapping_add(low)).wrapping_add(sender.port().into())
    }

    /// The slot of a sender.
    pub(crate) fn slot_of(&self, sender: SocketAddr) -> usize {
        let mut sum = self.sum.wrapping_add(self.port.wrapping_mul(sender.port().into()));
        let mut add = |factor: u32, word: u16| sum = sum.wrapping_add(factor.wrapping_mul(word.into()));
        match sender.ip().to_canonical() {
            IpAddr::V4(address) => {
                let address = u32::from(address);
                add(self.words[6], (address >> 16) as u16);
                add(self.words[7], address as u16);
            }
            IpAddr::V6(address) => {
                self.words.iter().zip(address.segments()).for_each(|(factor, word)| add(*factor, word));
            }
        }
        let mixed = (sum ^ (sum >> FIRST_SHIFT)).wrapping_mul(self.factor).wrapping_add(self.addend);
        let mixed = (mixed ^ (mixed >> SECOND_SHIFT)).wrapping_mul(LAST_FACTOR);
        (mixed >> (u32::BITS - SLOT_BITS)) as usize
    }
}

/// Spreads each bit over all (the finalizer of SplitMix64).
pub(crate) fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Evenness;

    const WORKERS: usize = 8;

    fn hash(seed: u64) -> SenderHash {
        SenderHash::new(&SteeringKey((u128::from(mix(seed)) << 64 | u128::from(mix(!seed))).to_le_bytes()))
    }

    fn worker(hash: &SenderHash, sender: SocketAddr) -> usize {
        hash.slot_of(sender) * WORKERS / SLOTS
    }

    /// Without a key one server's answer holds for all: whoever knows the hash sends everything to one worker.
    #[test]
    fn senders_crafted_against_one_key_are_even_under_another() {
        let all_ports: Vec<SocketAddr> =
            (1024..=u16::MAX).map(|port| SocketAddr::from(([192, 0, 2, 7], port))).collect();
        let all_addresses: Vec<SocketAddr> = (0..=u16::MAX)
            .map(|word| SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, word, 1], 5353)))
            .collect();
        let mut uneven = 0;
        for seed in 0..500_u64 {
            let (crafted, other) = (hash(2 * seed), hash(2 * seed + 1));
            let of = if seed % 2 == 0 { &all_ports } else { &all_addresses };
            let set: Vec<_> = of.iter().filter(|sender| worker(&crafted, **sender) == 3).take(1000).collect();
            assert_eq!(set.len(), 1000, "seed {seed}");
            let mut shares = [0_u64; WORKERS];
            set.iter().for_each(|sender| shares[worker(&other, **sender)] += 1);
            let evenness = Evenness::of(&shares).unwrap();
            assert!(evenness.p > 1e-6, "seed {seed}: {shares:?}, {evenness:?}");
            uneven += u32::from(evenness.p <= 0.001);
        }
        // By chance 0.5 of 500 are.
        assert!(uneven <= 5, "{uneven} of 500");
    }

    /// Ports and addresses in a row, as a NAT or a load generator has them.
    #[test]
    fn neighbours_are_spread() {
        let mut uneven = 0;
        for seed in 0..500_u64 {
            let hash = hash(seed);
            let mut shares = [0_u64; WORKERS];
            for number in 0..1000_u16 {
                let sender = match seed % 3 {
                    0 => SocketAddr::from(([10, 0, 0, 1], 40_000 + number)),
                    1 => SocketAddr::from(([10, 0, (number >> 8) as u8, number as u8], 514)),
                    _ => SocketAddr::from(([10, 0, 0, 1], 2 * number)),
                };
                shares[worker(&hash, sender)] += 1;
            }
            let evenness = Evenness::of(&shares).unwrap();
            assert!(evenness.p > 1e-6, "seed {seed}: {shares:?}, {evenness:?}");
            uneven += u32::from(evenness.p <= 0.001);
        }
        assert!(uneven <= 5, "{uneven} of 500");
    }

    #[test]
    fn a_key_is_kept_and_not_shown() {
        let key = SteeringKey::random().unwrap();
        assert_eq!(SteeringKey::from_bytes(key.to_bytes()), key);
        assert_ne!(SteeringKey::random().unwrap(), key);
        assert_eq!(format!("{key:?}"), "SteeringKey(secret)");
        let mapped: SocketAddr = "[::ffff:192.0.2.1]:7".parse().unwrap();
        let plain: SocketAddr = "192.0.2.1:7".parse().unwrap();
        let hash = SenderHash::new(&key);
        assert_eq!(hash.slot_of(mapped), hash.slot_of(plain), "a dual-stack socket gets the same packets");
    }
}
