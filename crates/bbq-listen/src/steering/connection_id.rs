//! The program that chooses by QUIC's destination connection id (RFC 9000, RFC 9369): classic BPF.
//!
//! A server chooses the connection ids under which its clients send. If each worker writes its number into those that it chooses, all
//! packets of a connection come to its worker, from whatever address the client sends, and after a restart that kept the sockets.
//!
//! ```text
//!   short header   | flags | destination connection id ...
//!   long header    | flags | version: 4 | length: 1 | destination connection id ...
//! ```
//!
//! The first packets of a client (Initial, 0-RTT) have an id that the client has chosen, so the hash of the sender chooses for them. It
//! does so for the whole handshake: a client that has seen an id of the server's goes on with Initial packets, and they come to the same
//! worker as the first one. Clients may not change their address before the handshake is complete (RFC 9000, 9).
//!
//! Invariant: a packet that is too short, of an unknown version, or with a number that no worker has is one for the hash.

use crate::steering::key::SenderHash;
use crate::steering::program::{
    ALU_AND, ALU_RSH, JA, JEQ, JGE, LD_B_ABS, LD_H_ABS, LD_W_ABS, by_slot, jump, plain,
};
use crate::sys::Instruction;

// linux/filter.h, linux/bpf_common.h
const LD_LENGTH: u16 = 0x80;
const JSET: u16 = 0x45;
const RET_A: u16 = 0x16;

/// The longest connection id of QUIC's versions 1 and 2.
pub(crate) const CONNECTION_ID_BYTES_MAX: u8 = 20;
/// The widest number: the largest group needs 10 bits.
pub(crate) const BITS_MAX: u8 = 16;

const LONG_HEADER: u32 = 0x80;
const TYPE_MASK: u32 = 0x30;
/// Each version that is known, and its type of Handshake packets.
const HANDSHAKES: [(u32, u32); 2] = [(1, 0x20), (0x6b33_43cf, 0x30)];
const VERSION_AT: u32 = 1;
const LENGTH_AT: u32 = 5;
const SHORT_ID_AT: u32 = 1;
const LONG_ID_AT: u32 = 6;
/// Instructions that look for a version.
const PER_VERSION: usize = 6;
/// A jump to the hash, whose distance is not known yet.
const TO_HASH: Instruction = Instruction { code: JA, jump_true: 0, jump_false: 0, k: u32::MAX };

/// Whether a number of so many bits can be at this byte of a connection id.
pub(crate) fn is_possible(offset: u8, bits: u8) -> bool {
    (1..=BITS_MAX).contains(&bits)
        && u16::from(offset) + u16::from(bytes_of(bits)) <= CONNECTION_ID_BYTES_MAX.into()
}

fn bytes_of(bits: u8) -> u8 {
    bits.div_ceil(8)
}

/// Chooses the socket whose number is in the connection id, unless it is in `absent` or there are not so many `sockets`; else by the
/// sender, as `by_slot` does.
pub(crate) fn by_connection_id(
    (offset, bits): (u8, u8),
    sockets: usize,
    absent: &[u16],
    hash: &SenderHash,
    owners: &[u16],
) -> Vec<Instruction> {
    let (at, bytes) = (u32::from(offset), u32::from(bytes_of(bits)));
    let load = if bytes == 1 { LD_B_ABS } else { LD_H_ABS };
    // How many bytes the packet has, with the flags.
    let needs = |length: u32| [plain(LD_LENGTH, 0), jump(JGE, length, 1, 0), TO_HASH];
    let mut choose = vec![plain(ALU_RSH, 8 * bytes - u32::from(bits))];
    choose.extend([jump(JGE, sockets as u32, 0, 1), TO_HASH]);
    for worker in absent {
        choose.extend([jump(JEQ, (*worker).into(), 0, 1), TO_HASH]);
    }
    choose.push(plain(RET_A, 0));
    let mut short = Vec::from(needs(SHORT_ID_AT + at + bytes));
    short.extend([plain(load, SHORT_ID_AT + at), plain(JA, 0)]);
    let mut long = Vec::from(needs(LONG_ID_AT + at + bytes));
    for (index, (version, handshake)) in HANDSHAKES.into_iter().enumerate() {
        // Over what is left of this version, over the others, and over the jump behind them.
        let over = 2 + PER_VERSION * (HANDSHAKES.len() - 1 - index);
        long.extend([
            plain(LD_W_ABS, VERSION_AT),
            jump(JEQ, version, 0, PER_VERSION as u8 - 2),
            plain(LD_B_ABS, 0),
            plain(ALU_AND, TYPE_MASK),
            jump(JEQ, handshake, over as u8, 0),
            TO_HASH,
        ]);
    }
    long.push(TO_HASH);
    long.extend([plain(LD_B_ABS, LENGTH_AT), jump(JGE, at + bytes, 1, 0), TO_HASH]);
    long.push(plain(load, LONG_ID_AT + at));
    // The short one goes on behind the long one.
    if let Some(over) = short.last_mut() {
        over.k = long.len() as u32;
    }
    let mut program = Vec::from(needs(1));
    program.extend([plain(LD_B_ABS, 0), jump(JSET, LONG_HEADER, 0, 1), plain(JA, short.len() as u32)]);
    program.extend(short);
    program.extend(long);
    program.extend(choose);
    let end = program.len();
    for (index, instruction) in program.iter_mut().enumerate() {
        if instruction.code == JA && instruction.k == TO_HASH.k {
            instruction.k = (end - index - 1) as u32;
        }
    }
    program.extend(by_slot(hash, owners));
    program
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::{SocketAddr, UdpSocket};
    use std::os::fd::AsFd;

    use crate::{Distribution, Group, Steering};

    const WORKERS: usize = 4;
    const INITIAL: u8 = 0xc0;
    const HANDSHAKE: u8 = 0xe0;

    fn group(offset: u8, bits: u8) -> Group {
        let options = Group::at("udp://127.0.0.1:0").unwrap().workers(WORKERS);
        let options = options.distribution(Distribution::Reuseport);
        options.steering(Steering::ConnectionId { offset, bits }).open().unwrap()
    }

    fn to(group: &Group) -> SocketAddr {
        group.local_address().socket_address().unwrap()
    }

    fn client() -> UdpSocket {
        UdpSocket::bind("127.0.0.1:0").unwrap()
    }

    /// The worker whose socket has the datagram, which is on loopback and so is there at once.
    fn arrives_at(group: &Group, client: &UdpSocket, datagram: &[u8]) -> usize {
        client.send_to(datagram, to(group)).unwrap();
        let has_it = |socket: &std::sync::Arc<crate::Socket>| {
            let socket = UdpSocket::from(socket.as_fd().try_clone_to_owned().unwrap());
            socket.recv(&mut [0; 64]).is_ok()
        };
        let at: Vec<usize> =
            (0..).zip(group.sockets()).filter(|(_, socket)| has_it(socket)).map(|(at, _)| at).collect();
        assert_eq!(at.len(), 1);
        at[0]
    }

    fn short(id: &[u8]) -> Vec<u8> {
        [&[0x40], id, &[0; 16]].concat()
    }

    fn long(flags: u8, version: u32, id: &[u8]) -> Vec<u8> {
        [&[flags][..], &version.to_be_bytes(), &[id.len() as u8], id, &[0; 16]].concat()
    }

    #[test]
    fn a_packet_comes_to_the_worker_in_its_connection_id_from_every_address() {
        let group = group(0, 8);
        for worker in 0..WORKERS {
            for _migrates in 0..8 {
                let client = client();
                let id = [worker as u8, 7, 7, 7, 7, 7, 7, 7];
                assert_eq!(arrives_at(&group, &client, &short(&id)), worker);
                assert_eq!(arrives_at(&group, &client, &long(HANDSHAKE, 1, &id)), worker);
                assert_eq!(arrives_at(&group, &client, &long(0xf0, 0x6b33_43cf, &id)), worker, "version 2");
            }
        }
    }

    #[test]
    fn some_bits_of_any_byte_are_the_number() {
        for (offset, bits) in [(0, 2), (3, 4), (7, 8), (2, 10), (6, 16)] {
            let group = group(offset, bits);
            for worker in 0..WORKERS as u16 {
                let mut id = [0xff; 8];
                let at = usize::from(offset);
                if bits <= 8 {
                    id[at] = (worker as u8) << (8 - bits) | (0xff_u16 >> bits) as u8;
                } else {
                    let word = worker << (16 - bits) | (0xffff_u32 >> bits) as u16;
                    id[at..at + 2].copy_from_slice(&word.to_be_bytes());
                }
                assert_eq!(
                    arrives_at(&group, &client(), &short(&id)),
                    usize::from(worker),
                    "{offset} {bits}"
                );
            }
        }
    }

    /// They have no number of the server's, and every other choice would be one of the client's.
    #[test]
    fn what_has_no_number_is_spread_by_the_hash_of_its_sender() {
        let group = group(0, 8);
        let id = |first: u8| [first, 1, 2, 3, 4, 5, 6, 7];
        let mut workers = BTreeSet::new();
        for _ in 0..64 {
            let client = client();
            let worker = arrives_at(&group, &client, &long(INITIAL, 1, &id(0)));
            workers.insert(worker);
            for other in [
                long(INITIAL, 1, &id(3)),
                // 0-RTT.
                long(0xd0, 1, &id(2)),
                // Handshake of version 1 has another meaning in version 2, and nobody knows version 9.
                long(HANDSHAKE, 0x6b33_43cf, &id(1)),
                long(HANDSHAKE, 9, &id(1)),
                long(HANDSHAKE, 1, &[]),
                short(&id(WORKERS as u8)),
                short(&id(255)),
                vec![0x40],
                vec![INITIAL, 0, 0],
                Vec::new(),
            ] {
                assert_eq!(arrives_at(&group, &client, &other), worker, "{other:?}");
            }
        }
        assert_eq!(workers.len(), WORKERS);
    }

    #[test]
    fn a_restart_keeps_the_worker_and_a_worker_that_was_removed_has_none() {
        let old = group(0, 8);
        let sockets: Vec<_> =
            old.sockets().iter().map(|socket| socket.as_fd().try_clone_to_owned().unwrap()).collect();
        let options = Group::at(&old.local_address().to_string()).unwrap().workers(WORKERS);
        let options = options.steering_key(Some(old.steering_key().clone()));
        let new = options.steering(Steering::ConnectionId { offset: 0, bits: 8 }).adopt(sockets).unwrap();
        drop(old);
        for worker in 0..WORKERS {
            assert_eq!(arrives_at(&new, &client(), &short(&[worker as u8; 8])), worker);
        }
        new.resize(2).unwrap();
        assert!(arrives_at(&new, &client(), &short(&[3; 8])) < 2);
        assert_eq!(arrives_at(&new, &client(), &short(&[1; 8])), 1);
        new.resize(6).unwrap();
        assert_eq!(arrives_at(&new, &client(), &short(&[5; 8])), 5);
    }

    #[test]
    fn a_number_that_no_connection_id_can_have_is_refused() {
        let open = |address: &str, offset, bits| {
            let options = Group::at(address).unwrap().workers(2).distribution(Distribution::Reuseport);
            options
                .steering(Steering::ConnectionId { offset, bits })
                .open()
                .map(drop)
                .map_err(|error| error.to_string())
        };
        for (offset, bits) in [(0, 0), (0, 17), (20, 1), (19, 9), (255, 255)] {
            let refused = open("udp://127.0.0.1:0", offset, bits).unwrap_err();
            assert!(refused.contains("1 to 16 bits within the first 20 bytes"), "{refused}");
        }
        assert!(open("udp://127.0.0.1:0", 18, 16).is_ok());
        assert!(open("tcp://127.0.0.1:0", 0, 8).unwrap_err().contains("only datagrams"));
    }
}
