//! Programs that choose a socket of a `SO_REUSEPORT` group: classic BPF, which needs no privilege and can be swapped while
//! the group is open (socket(7), SO_ATTACH_REUSEPORT_CBPF).
//!
//! The program gets the packet that opens a connection, or the datagram. It returns the index of a socket, in the order in which
//! they were bound. For an invalid index the kernel's hash decides.

use std::net::{IpAddr, SocketAddr};

use crate::sys::Instruction;

/// The number of slots into which senders are divided. Each worker needs one at least. A program has at most 4,096 instructions,
/// and needs at most three for a slot.
pub(crate) const SLOTS: usize = 1024;
const SLOT_BITS: u32 = SLOTS.ilog2();
const _: () = assert!(SLOTS.is_power_of_two() && SLOTS >= crate::WORKERS_MAX);

/// Odd factors that spread neighbouring addresses and ports over all bits (the golden ratio; Knuth 6.4).
const ADDRESS_FACTOR: u32 = 0x85eb_ca6b;
const PORT_FACTOR: u32 = 0x9e37_79b1;

// linux/filter.h, linux/bpf_common.h
const LD_W_ABS: u16 = 0x20;
const LD_H_ABS: u16 = 0x28;
const LD_B_ABS: u16 = 0x30;
const LD_H_IND: u16 = 0x48;
const LDX_MEM: u16 = 0x61;
const ST: u16 = 0x02;
const ALU_MUL: u16 = 0x24;
const ALU_MOD: u16 = 0x94;
const ALU_AND: u16 = 0x54;
const ALU_LSH: u16 = 0x64;
const ALU_RSH: u16 = 0x74;
const ALU_ADD_X: u16 = 0x0c;
const ALU_XOR_X: u16 = 0xac;
const JA: u16 = 0x05;
const JEQ: u16 = 0x15;
const JGE: u16 = 0x35;
const TAX: u16 = 0x07;
const RET_K: u16 = 0x06;
/// The offset of the network header, independent of the data pointer.
const NET: u32 = 0xfff0_0000;
const AD_CPU: u32 = 0xffff_f000 + 36;

fn plain(code: u16, k: u32) -> Instruction {
    Instruction { code, jump_true: 0, jump_false: 0, k }
}

fn jump(code: u16, k: u32, jump_true: u8, jump_false: u8) -> Instruction {
    Instruction { code, jump_true, jump_false, k }
}

/// Chooses by the sender's address and port. `owners` has the socket of each slot.
pub(crate) fn by_slot(owners: &[u16]) -> Vec<Instruction> {
    let mut program = slot_of_packet();
    program.extend(choose(owners, 0));
    program
}

/// Chooses by the processor that handles the packet. `owners` has the socket for each processor, modulo its length.
pub(crate) fn by_cpu(owners: &[u16]) -> Vec<Instruction> {
    let mut program = vec![plain(LD_W_ABS, AD_CPU), plain(ALU_MOD, owners.len() as u32)];
    program.extend(choose(owners, 0));
    program
}

/// The slot of a sender: the same as the program computes.
pub(crate) fn slot_of(sender: SocketAddr) -> usize {
    let address = match sender.ip().to_canonical() {
        IpAddr::V4(address) => u32::from(address),
        IpAddr::V6(address) => {
            let bytes = address.octets();
            bytes
                .chunks_exact(4)
                .fold(0, |sum, word| sum ^ u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
        }
    };
    let mixed = address.wrapping_mul(ADDRESS_FACTOR).wrapping_add(u32::from(sender.port()));
    (mixed.wrapping_mul(PORT_FACTOR) >> (u32::BITS - SLOT_BITS)) as usize
}

/// Computes the slot into the accumulator.
fn slot_of_packet() -> Vec<Instruction> {
    let v4 = [
        // The source port is behind the header, whose length is in words.
        plain(LD_B_ABS, NET),
        plain(ALU_AND, 0x0f),
        plain(ALU_LSH, 2),
        plain(TAX, 0),
        plain(LD_H_IND, NET),
        plain(ST, 0),
        plain(LD_W_ABS, NET + 12),
    ];
    let v6 = [
        plain(LD_H_ABS, NET + 40),
        plain(ST, 0),
        plain(LD_W_ABS, NET + 8),
        plain(TAX, 0),
        plain(LD_W_ABS, NET + 12),
        plain(ALU_XOR_X, 0),
        plain(TAX, 0),
        plain(LD_W_ABS, NET + 16),
        plain(ALU_XOR_X, 0),
        plain(TAX, 0),
        plain(LD_W_ABS, NET + 20),
        plain(ALU_XOR_X, 0),
    ];
    let mut program = vec![plain(LD_B_ABS, NET), plain(ALU_RSH, 4), jump(JEQ, 4, 0, v4.len() as u8 + 1)];
    program.extend(v4);
    program.push(plain(JA, v6.len() as u32));
    program.extend(v6);
    program.extend([
        plain(ALU_MUL, ADDRESS_FACTOR),
        plain(LDX_MEM, 0),
        plain(ALU_ADD_X, 0),
        plain(ALU_MUL, PORT_FACTOR),
        plain(ALU_RSH, u32::BITS - SLOT_BITS),
    ]);
    program
}

/// Returns the owner of the number in the accumulator, which is `first` or more, by a binary search over runs of equal owners.
fn choose(owners: &[u16], first: u32) -> Vec<Instruction> {
    let middle = owners.len() / 2;
    let one = owners.first().copied().unwrap_or(u16::MAX);
    if owners.iter().all(|owner| *owner == one) {
        return vec![plain(RET_K, one.into())];
    }
    // Split between two runs, as near to the middle as possible.
    let is_edge = |at: &usize| owners[at - 1] != owners[*at];
    let at = (1..owners.len()).filter(is_edge).min_by_key(|at| at.abs_diff(middle)).unwrap_or(middle);
    let edge = first + at as u32;
    let (low, high) = (choose(&owners[..at], first), choose(&owners[at..], edge));
    let mut program = match u8::try_from(low.len()) {
        Ok(over_low) => vec![jump(JGE, edge, over_low, 0)],
        // The offset of a conditional jump has 8 bits.
        Err(_) => vec![jump(JGE, edge, 0, 1), plain(JA, low.len() as u32)],
    };
    program.extend(low);
    program.extend(high);
    program
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::*;
    use crate::sys::choose_by;

    /// Two sockets with one address, between which `program` chooses.
    fn pair(ip: &str, program: &[Instruction]) -> [UdpSocket; 2] {
        let first = open(&format!("{ip}:0"));
        let second = open(&first.local_addr().unwrap().to_string());
        choose_by(first.as_fd(), Some(program)).unwrap();
        [first, second]
    }

    fn open(address: &str) -> UdpSocket {
        let address: std::net::SocketAddr = address.parse().unwrap();
        let socket =
            socket2::Socket::new(socket2::Domain::for_address(address), socket2::Type::DGRAM, None).unwrap();
        socket.set_reuse_port(true).unwrap();
        socket.bind(&address.into()).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket.into()
    }

    /// Sends from ports that the system chooses, and checks that each datagram arrives at the owner of its slot.
    fn each_comes_to_its_owner(ip: &str) {
        let owners: Vec<u16> = (0..SLOTS).map(|slot| u16::from(slot % 7 < 3)).collect();
        let sockets = pair(ip, &by_slot(&owners));
        let to = sockets[0].local_addr().unwrap();
        let mut slots = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let sender = UdpSocket::bind(format!("{ip}:0")).unwrap();
            sender.send_to(b"x", to).unwrap();
            let slot = slot_of(sender.local_addr().unwrap());
            slots.insert(slot);
            let mut byte = [0; 1];
            let (_, from) = sockets[usize::from(owners[slot])].recv_from(&mut byte).unwrap();
            assert_eq!(from, sender.local_addr().unwrap());
        }
        assert!(slots.len() > 100, "senders are spread over the slots: {}", slots.len());
    }

    #[test]
    fn senders_by_ip_version_4_come_to_the_owner_of_their_slot() {
        each_comes_to_its_owner("127.0.0.1");
    }

    #[test]
    fn senders_by_ip_version_6_come_to_the_owner_of_their_slot() {
        each_comes_to_its_owner("[::1]");
    }

    #[test]
    fn the_largest_table_fits_the_kernel() {
        let owners: Vec<u16> = (0..SLOTS as u16).map(|slot| slot % 2).collect();
        let program = by_slot(&owners);
        assert!(program.len() <= 4096, "{}", program.len());
        pair("127.0.0.1", &program);
        pair("127.0.0.1", &by_cpu(&(0..crate::WORKERS_MAX as u16).collect::<Vec<_>>()));
    }
}
