//! Makes the programs that servers without privilege steer by (`pinned`): the one step that needs a privilege.

use std::fs::{self, Permissions};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use rustix::fs::statfs;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::UnixOwner;
use crate::steering::pinned::{PROGRAM, SHARES, STEERING_PINS_MAX, pin_directory};
use crate::sys::bpf::{
    AT_HAND_OFFSET, ExtendedInstruction, SHARED_SLOTS, create_shared_array, load_program, pin,
};

/// `BPF_FS_MAGIC` of linux/magic.h.
const BPF_FS_MAGIC: u64 = 0xcafe_4a11;

/// The programs that servers steer by, with `steering=load`. `bbq listen-setup` is this.
///
/// A server of another user takes a program for each of its groups, while `owner` may read and write it.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use bbq_listen::{STEERING_PINS_DEFAULT, SteeringSetup, UnixOwner};
///
/// // As root, once after each start of the system.
/// let owner = UnixOwner { user: UnixOwner::user_named("server")?, group: None };
/// SteeringSetup::new(STEERING_PINS_DEFAULT, 8).owner(owner).install()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SteeringSetup {
    /// A directory, which is made if it is missing. If it is in no file system of type bpf, one is mounted there.
    pub pins: PathBuf,
    /// How many programs: one for each group of all servers, and as many again for an upgrade. 1 to [`STEERING_PINS_MAX`].
    pub programs: usize,
    /// Who may use them, besides root.
    pub owner: UnixOwner,
}

impl SteeringSetup {
    /// `programs` programs for root alone.
    pub fn new(pins: impl Into<PathBuf>, programs: usize) -> Self {
        Self { pins: pins.into(), programs, owner: UnixOwner::default() }
    }

    /// Who may use the programs.
    #[must_use]
    pub fn owner(self, owner: UnixOwner) -> Self {
        Self { owner, ..self }
    }

    /// Pins the programs. Those that are there stay, also while servers use them, and get the owner.
    ///
    /// # Errors
    /// If the number is out of range, the directory cannot be made, or a privilege is missing.
    pub fn install(&self) -> Result<()> {
        if self.programs == 0 || self.programs > STEERING_PINS_MAX {
            let range = format!("{} programs: 1 to {STEERING_PINS_MAX} can be pinned", self.programs);
            return Err(Error::new(ErrorKind::InvalidInput, range));
        }
        make_directory(&self.pins, 0o755)?;
        if !is_of_bpf(&self.pins)? {
            // Not the one at /sys/fs/bpf: systemd lets nobody but root into that.
            let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
            mount("bpf", &self.pins, "bpf", flags, Some(c"mode=0755"))
                .map_err(|errno| refused("a file system of type bpf", &errno.into()))?;
        }
        (0..self.programs).try_for_each(|number| self.install_one(&pin_directory(&self.pins, number)))
    }

    fn install_one(&self, directory: &Path) -> Result<()> {
        let (program, shares) = (directory.join(PROGRAM), directory.join(SHARES));
        if !program.exists() {
            // What an earlier try has left.
            let _mostly_missing = fs::remove_file(&shares);
            make_directory(directory, 0o750)?;
            let array = create_shared_array().map_err(|error| refused("an array", &error))?;
            let loaded = load_program(&choose_by_array(array.as_fd()));
            let loaded = loaded.map_err(|error| refused("a program", &error))?;
            pin(array.as_fd(), &shares).map_err(|error| named(&shares, "pin", &error))?;
            pin(loaded.as_fd(), &program).map_err(|error| named(&program, "pin", &error))?;
        }
        let UnixOwner { user, group } = self.owner;
        for (path, mode) in [(&program, 0o660), (&shares, 0o660), (&directory.to_owned(), 0o750)] {
            chown(path, user, group).map_err(|error| named(path, "change the owner of", &error))?;
            fs::set_permissions(path, Permissions::from_mode(mode))
                .map_err(|error| named(path, "change the permissions of", &error))?;
        }
        Ok(())
    }

    /// Removes all programs and the directory. Those that servers use stay with them until their sockets are closed.
    ///
    /// # Errors
    /// If a file cannot be removed. What is missing is no error.
    pub fn remove(&self) -> Result<()> {
        for number in 0..STEERING_PINS_MAX {
            let directory = pin_directory(&self.pins, number);
            for name in [PROGRAM, SHARES] {
                ignore_missing(fs::remove_file(directory.join(name)), &directory.join(name))?;
            }
            ignore_missing(fs::remove_dir(&directory), &directory)?;
        }
        if self.pins.exists() && is_of_bpf(&self.pins)? && !is_of_bpf(&self.pins.join(".."))? {
            unmount(&self.pins, UnmountFlags::DETACH)
                .map_err(|errno| named(&self.pins, "unmount", &errno.into()))?;
        }
        ignore_missing(fs::remove_dir(&self.pins), &self.pins)
    }
}

fn is_of_bpf(path: &Path) -> Result<bool> {
    let kind = statfs(path).map_err(|errno| named(path, "look at", &errno.into()))?.f_type;
    // The kernel's number has 32 bits, the field's type is the architecture's.
    Ok(kind as u64 & u64::from(u32::MAX) == BPF_FS_MAGIC)
}

fn make_directory(path: &Path, mode: u32) -> Result<()> {
    match fs::create_dir(path) {
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(mode)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(named(path, "create", &error)),
    }
}

fn ignore_missing(result: Result<()>, path: &Path) -> Result<()> {
    match result {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(named(path, "remove", &error)),
        _ => Ok(()),
    }
}

fn named(path: &Path, step: &str, error: &Error) -> Error {
    Error::new(error.kind(), format!("cannot {step} {} ({error})", path.display()))
}

fn refused(what: &str, error: &Error) -> Error {
    let remedy = match error.kind() {
        ErrorKind::PermissionDenied => "; run it as root",
        _ => "; it needs Linux 5.5 or newer with BPF",
    };
    Error::new(error.kind(), format!("the system cannot create {what} ({error}){remedy}"))
}

// linux/bpf_common.h, linux/bpf.h
const LD_DW_IMMEDIATE: u8 = 0x18;
const LDX_H: u8 = 0x69;
const LDX_B: u8 = 0x71;
const ALU64_AND: u8 = 0x57;
const ALU64_LSH: u8 = 0x67;
const ALU64_RSH: u8 = 0x77;
const ALU64_ADD_X: u8 = 0x0f;
const ALU64_MOV_X: u8 = 0xbf;
const JGT: u8 = 0x25;
const JEQ: u8 = 0x15;
const JGE_X: u8 = 0x3d;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const PSEUDO_MAP_VALUE: u8 = 2;
const GET_PRANDOM_U32: i32 = 7;

/// Draws a slot, and takes its worker if that sleeps. Otherwise it draws another, and takes the one of the two that has less at hand.
///
/// What is no worker leaves the choice to the kernel's hash.
fn choose_by_array(array: BorrowedFd<'_>) -> Vec<ExtendedInstruction> {
    const NUMBER_MAX: i32 = SHARED_SLOTS as i32 - 1;
    let op = ExtendedInstruction::new;
    let (result, temporary, random, start, first, first_load) = (0, 1, 6, 7, 8, 9);
    // The owner of the slot in the low bits of `random`, into `to`.
    let owner = |to: u8| {
        [
            op(ALU64_MOV_X, temporary, random, 0, 0),
            op(ALU64_AND, temporary, 0, 0, NUMBER_MAX),
            op(ALU64_LSH, temporary, 0, 0, 1),
            op(ALU64_ADD_X, temporary, start, 0, 0),
            op(LDX_H, to, temporary, 0, 0),
        ]
    };
    // What the worker has at hand, into `to`.
    let load = |to: u8, worker: u8| {
        [
            op(ALU64_MOV_X, temporary, worker, 0, 0),
            op(ALU64_ADD_X, temporary, start, 0, 0),
            op(LDX_B, to, temporary, AT_HAND_OFFSET, 0),
        ]
    };
    let second = random;
    let mut last = vec![op(ALU64_RSH, random, 0, 0, SHARED_SLOTS.ilog2() as i32)];
    last.extend(owner(second));
    // To the end: 3 of the load, 2 behind it.
    last.push(op(JGT, second, 0, 5, NUMBER_MAX));
    last.extend(load(temporary, second));
    last.push(op(JGE_X, temporary, first_load, 1, 0));
    last.push(op(ALU64_MOV_X, first, second, 0, 0));
    let past_last = last.len() as i16;
    let mut program = vec![
        op(CALL, 0, 0, 0, GET_PRANDOM_U32),
        op(ALU64_MOV_X, random, result, 0, 0),
        op(LD_DW_IMMEDIATE, start, PSEUDO_MAP_VALUE, 0, array.as_raw_fd()),
        // The upper half: the offset in the value.
        op(0, 0, 0, 0, 0),
    ];
    program.extend(owner(first));
    program.push(op(JGT, first, 0, 4 + past_last, NUMBER_MAX));
    program.extend(load(first_load, first));
    program.push(op(JEQ, first_load, 0, past_last, 0));
    program.extend(last);
    program.extend([op(ALU64_MOV_X, result, first, 0, 0), op(EXIT, 0, 0, 0, 0)]);
    program
}
