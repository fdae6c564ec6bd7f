//! Programs that choose a socket of a `SO_REUSEPORT` group: classic BPF, which needs no privilege and can be swapped while
//! the group is open (socket(7), SO_ATTACH_REUSEPORT_CBPF).
//!
//! The program gets the packet that opens a connection, or the datagram. It returns the index of a socket, in the order in which
//! they were bound. For an invalid index the kernel's hash decides.

use crate::steering::key::{FIRST_SHIFT, LAST_FACTOR, SECOND_SHIFT, SLOT_BITS, SenderHash};
use crate::sys::Instruction;

// linux/filter.h, linux/bpf_common.h
pub(super) const LD_W_ABS: u16 = 0x20;
pub(super) const LD_H_ABS: u16 = 0x28;
pub(super) const LD_B_ABS: u16 = 0x30;
const LD_H_IND: u16 = 0x48;
const ALU_ADD: u16 = 0x04;
const ALU_MUL: u16 = 0x24;
const ALU_MOD: u16 = 0x94;
pub(super) const ALU_AND: u16 = 0x54;
const ALU_LSH: u16 = 0x64;
pub(super) const ALU_RSH: u16 = 0x74;
const ALU_ADD_X: u16 = 0x0c;
const ALU_XOR_X: u16 = 0xac;
pub(super) const JA: u16 = 0x05;
pub(super) const JEQ: u16 = 0x15;
pub(super) const JGE: u16 = 0x35;
const TAX: u16 = 0x07;
const RET_K: u16 = 0x06;
/// The offset of the network header, independent of the data pointer.
const NET: u32 = 0xfff0_0000;
const AD_CPU: u32 = 0xffff_f000 + 36;
const AD_RANDOM: u32 = 0xffff_f000 + 56;

pub(super) fn plain(code: u16, k: u32) -> Instruction {
    Instruction { code, jump_true: 0, jump_false: 0, k }
}

pub(super) fn jump(code: u16, k: u32, jump_true: u8, jump_false: u8) -> Instruction {
    Instruction { code, jump_true, jump_false, k }
}

/// Chooses by the sender's address and port. `owners` has the socket of each slot.
pub(crate) fn by_slot(hash: &SenderHash, owners: &[u16]) -> Vec<Instruction> {
    let mut program = slot_of_packet(hash);
    program.extend(choose(owners, 0));
    program
}

/// Chooses by the processor that handles the packet. `owners` has the socket for each processor, modulo its length.
pub(crate) fn by_cpu(owners: &[u16]) -> Vec<Instruction> {
    by_number(AD_CPU, owners)
}

/// Chooses by chance. `owners` has equally likely sockets.
pub(crate) fn by_random_number(owners: &[u16]) -> Vec<Instruction> {
    by_number(AD_RANDOM, owners)
}

/// Chooses by a number of the kernel's, modulo the length of `owners`.
fn by_number(number: u32, owners: &[u16]) -> Vec<Instruction> {
    let mut program = vec![plain(LD_W_ABS, number), plain(ALU_MOD, owners.len() as u32)];
    program.extend(choose(owners, 0));
    program
}

/// Computes the slot into the accumulator, as `SenderHash::slot_of` does.
fn slot_of_packet(hash: &SenderHash) -> Vec<Instruction> {
    // The 16-bit word at an offset, multiplied, is added to the sum.
    let add = |at: u32, factor: u32| {
        [plain(TAX, 0), plain(LD_H_ABS, NET + at), plain(ALU_MUL, factor), plain(ALU_ADD_X, 0)]
    };
    let port = [plain(ALU_MUL, hash.port), plain(ALU_ADD, hash.sum)];
    let mut v4 = vec![
        // The source port is behind the header, whose length is in words.
        plain(LD_B_ABS, NET),
        plain(ALU_AND, 0x0f),
        plain(ALU_LSH, 2),
        plain(TAX, 0),
        plain(LD_H_IND, NET),
    ];
    v4.extend(port);
    v4.extend([12, 14].into_iter().zip(&hash.words[6..]).flat_map(|(at, factor)| add(at, *factor)));
    let mut v6 = vec![plain(LD_H_ABS, NET + 40)];
    v6.extend(port);
    v6.extend((8..24).step_by(2).zip(&hash.words).flat_map(|(at, factor)| add(at, *factor)));
    let mut program = vec![plain(LD_B_ABS, NET), plain(ALU_RSH, 4), jump(JEQ, 4, 0, v4.len() as u8 + 1)];
    program.extend(v4);
    program.push(plain(JA, v6.len() as u32));
    program.extend(v6);
    program.extend([
        plain(TAX, 0),
        plain(ALU_RSH, FIRST_SHIFT),
        plain(ALU_XOR_X, 0),
        plain(ALU_MUL, hash.factor),
        plain(ALU_ADD, hash.addend),
        plain(TAX, 0),
        plain(ALU_RSH, SECOND_SHIFT),
        plain(ALU_XOR_X, 0),
        plain(ALU_MUL, LAST_FACTOR),
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
    use crate::SteeringKey;
    use crate::steering::key::SLOTS;
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
        let key = SteeringKey::random().unwrap();
        let hash = SenderHash::new(&key);
        let sockets = pair(ip, &by_slot(&hash, &owners));
        let to = sockets[0].local_addr().unwrap();
        let mut slots = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let sender = UdpSocket::bind(format!("{ip}:0")).unwrap();
            sender.send_to(b"x", to).unwrap();
            let slot = hash.slot_of(sender.local_addr().unwrap());
            slots.insert(slot);
            let mut byte = [0; 1];
            let (_, from) = sockets[usize::from(owners[slot])].recv_from(&mut byte).unwrap();
            assert_eq!(from, sender.local_addr().unwrap(), "key {:?}", key.to_bytes());
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

    /// The same sender comes to both sockets, in proportion.
    #[test]
    fn chance_has_the_proportions_of_the_slots() {
        const DATAGRAMS: usize = 2000;
        let owners: Vec<u16> = (0..SLOTS).map(|slot| u16::from(slot < SLOTS / 4)).collect();
        let sockets = pair("127.0.0.1", &by_random_number(&owners));
        let to = sockets[0].local_addr().unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut second = 0;
        for _ in 0..DATAGRAMS {
            sender.send_to(b"x", to).unwrap();
            second += usize::from(sockets[1].recv(&mut [0; 1]).is_ok());
            while sockets[0].recv(&mut [0; 1]).is_ok() {}
        }
        // Ten standard deviations around a quarter.
        assert!((306..=694).contains(&second), "{second} of {DATAGRAMS}");
    }

    #[test]
    fn the_largest_table_fits_the_kernel() {
        let owners: Vec<u16> = (0..SLOTS as u16).map(|slot| slot % 2).collect();
        let hash = SenderHash::new(&SteeringKey::from_bytes([7; 16]));
        let program = by_slot(&hash, &owners);
        assert!(program.len() <= 4096, "{}", program.len());
        pair("127.0.0.1", &program);
        pair("127.0.0.1", &by_random_number(&(0..crate::WORKERS_MAX as u16).collect::<Vec<_>>()));
        pair("127.0.0.1", &by_cpu(&(0..crate::WORKERS_MAX as u16).collect::<Vec<_>>()));
    }
}
