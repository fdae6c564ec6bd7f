//! A program that is in the kernel already, for steering by load: a server changes the shares by a store into memory, instead of by
//! another program, and the program also sees which workers sleep at that moment.
//!
//! Somebody with privilege has made programs and given them names (`setup`). A group takes one that no other group has; a lock on its
//! directory tells, which the system releases when the process ends.

use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::steering::slots::Slots;
use crate::sys::bpf::{MappedArray, SHARED_SLOTS, open_pinned};

/// Where `bbq listen-setup` pins programs.
pub const STEERING_PINS_DEFAULT: &str = "/run/bbq-listen";
/// At most so many programs are pinned, and looked at when a group takes one.
pub const STEERING_PINS_MAX: usize = 256;
/// The name of a program in its directory.
pub(crate) const PROGRAM: &str = "program";
/// The name of its array.
pub(crate) const SHARES: &str = "shares";

const _: () = assert!(SHARED_SLOTS == crate::steering::key::SLOTS && SHARED_SLOTS >= crate::WORKERS_MAX);

/// The directory of the program with this number. A program that reads another array has another name before the number.
pub(crate) fn pin_directory(pins: &Path, number: usize) -> PathBuf {
    pins.join(format!("load-{number}"))
}

/// A pinned program that this group has for itself.
#[derive(Debug)]
pub(crate) struct PinnedProgram {
    /// Locked.
    _directory: File,
    program: OwnedFd,
    shares: MappedArray,
}

impl PinnedProgram {
    /// Takes a program that nobody has; `None` if none is pinned.
    ///
    /// # Errors
    /// Why there is none although some are pinned.
    pub(crate) fn take(pins: &Path) -> Result<Option<Self>, String> {
        for number in 0..STEERING_PINS_MAX {
            let path = pin_directory(pins, number);
            let directory = match File::open(&path) {
                Ok(directory) => directory,
                Err(error) if error.kind() == ErrorKind::NotFound && number == 0 => return Ok(None),
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    return Err(format!(
                        "all {number} programs in {} are taken; pin more with `bbq listen-setup --programs`",
                        pins.display()
                    ));
                }
                Err(error) => return Err(unusable(&path, &error)),
            };
            match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Self::open(directory, &path).map(Some),
                Err(Errno::WOULDBLOCK) => {}
                Err(errno) => return Err(unusable(&path, &errno.into())),
            }
        }
        Err(format!("all {STEERING_PINS_MAX} programs in {} are taken", pins.display()))
    }

    fn open(directory: File, path: &Path) -> Result<Self, String> {
        let open =
            |name: &str| open_pinned(&path.join(name)).map_err(|error| unusable(&path.join(name), &error));
        let (program, shares) = (open(PROGRAM)?, open(SHARES)?);
        let shares =
            MappedArray::new(shares.as_fd()).map_err(|error| unusable(&path.join(SHARES), &error))?;
        let pinned = Self { _directory: directory, program, shares };
        // Who had it before may have been killed.
        pinned.shares.array().at_hand.iter().for_each(|worker| worker.store(0, Relaxed));
        Ok(pinned)
    }

    pub(crate) fn program(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }

    /// From now on the worker of each slot is this one.
    pub(crate) fn set_shares(&self, slots: &Slots) {
        for (slot, owner) in self.shares.array().owners.iter().enumerate() {
            owner.store(slots.owner(slot), Relaxed);
        }
    }

    /// How many connections a worker has at hand; `None` while it sleeps.
    pub(crate) fn set_at_hand(&self, worker: usize, at_hand: Option<usize>) {
        let level = at_hand.map_or(0, |count| u8::try_from(count).unwrap_or(u8::MAX).saturating_add(1));
        if let Some(place) = self.shares.array().at_hand.get(worker) {
            place.store(level, Relaxed);
        }
    }
}

fn unusable(path: &Path, error: &std::io::Error) -> String {
    format!("{} cannot be used ({error})", path.display())
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use crate::{Group, GroupOptions, Steering, SteeringSetup};

    const CONNECTIONS: usize = 400;

    /// How many of some connections come to the first of two workers.
    fn accepted_by_first(group: &Group) -> usize {
        let address = group.local_address().socket_address().unwrap();
        let waits = || group.sockets()[0].queue().unwrap().queue as usize;
        let before = waits();
        let clients: Vec<_> = (0..CONNECTIONS).map(|_| TcpStream::connect(address).unwrap()).collect();
        let first = waits() - before;
        drop(clients);
        first
    }

    /// With root alone: it mounts a file system and loads a program.
    #[test]
    fn stores_into_memory_steer() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let setup = SteeringSetup::new(directory.path().join("pins"), 1);
        setup.install().unwrap();
        let options = GroupOptions::new("tcp://127.0.0.1:0".parse().unwrap(), 2).steering(Steering::Load);
        let group = options.steering_pins(&setup.pins).backlog(4096).open().unwrap();
        let balance = group.inner().dispatch.balance();
        assert!(balance.pinned().is_some(), "{:?}", group.steering());

        group.inner().steer_by_load(&[1, 0]);
        assert_eq!(accepted_by_first(&group), CONNECTIONS);
        group.inner().steer_by_load(&[0, 1]);
        assert_eq!(accepted_by_first(&group), 0);
        group.inner().steer_by_load(&[1, 1]);
        // Ten standard deviations, here and below.
        let first = accepted_by_first(&group);
        assert!((100..=300).contains(&first), "even: {first}");
        // Each connection has two draws, and comes to the first if both are the first.
        balance.show_at_hand(0, Some(2));
        let first = accepted_by_first(&group);
        assert!((14..=186).contains(&first), "the second sleeps: {first}");
        balance.show_at_hand(1, Some(2));
        let first = accepted_by_first(&group);
        assert!((100..=300).contains(&first), "both have as much: {first}");
        balance.show_at_hand(0, None);
        let first = accepted_by_first(&group);
        assert!((214..=386).contains(&first), "the first sleeps: {first}");
        // A number that is no worker leaves the choice to the hash.
        let shares = balance.pinned().unwrap().shares.array();
        shares.owners.iter().for_each(|owner| owner.store(u16::MAX, std::sync::atomic::Ordering::Relaxed));
        let first = accepted_by_first(&group);
        assert!((100..=300).contains(&first), "the hash: {first}");

        drop(group);
        setup.remove().unwrap();
    }
}
