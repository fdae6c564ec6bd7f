//! The system call bpf(2): an array that the kernel and processes share, programs that choose a socket of a `SO_REUSEPORT` group by it,
//! and their names in a file system of type bpf.
//!
//! To make them takes a privilege (`CAP_BPF`); to use what has a name takes the right to read and write it.

use std::ffi::CString;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU16};

use super::set_option;

// linux/bpf.h
const BPF_MAP_CREATE: libc::c_long = 0;
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_OBJ_PIN: libc::c_long = 6;
const BPF_OBJ_GET: libc::c_long = 7;
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_PROG_TYPE_SOCKET_FILTER: u32 = 1;
/// Linux 5.5.
const BPF_F_MMAPABLE: u32 = 1 << 10;

/// Slots of an array, and workers that it has place for.
pub(crate) const SHARED_SLOTS: usize = 1024;

/// What a program reads and a server writes.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct SharedArray {
    /// The socket of each slot.
    pub(crate) owners: [AtomicU16; SHARED_SLOTS],
    /// How much each worker has at hand: 0 while it sleeps.
    pub(crate) at_hand: [AtomicU8; SHARED_SLOTS],
}

/// Where `at_hand` begins.
pub(crate) const AT_HAND_OFFSET: i16 = mem::offset_of!(SharedArray, at_hand) as i16;
/// A mapping has whole pages, and no page is smaller.
const _: () = assert!(mem::size_of::<SharedArray>() <= 4096);

/// One instruction of extended BPF (`struct bpf_insn`).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct ExtendedInstruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

impl ExtendedInstruction {
    /// `to` and `from` are registers, 0 to 10.
    pub(crate) const fn new(code: u8, to: u8, from: u8, offset: i16, immediate: i32) -> Self {
        // Two bit fields, of which the first is in the low bits where the first byte of a number is.
        let registers = if cfg!(target_endian = "little") { from << 4 | to } else { to << 4 | from };
        Self { code, registers, offset, immediate }
    }
}

#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries_max: u32,
    flags: u32,
}

#[repr(C)]
struct ProgramLoad {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
}

#[repr(C)]
struct Object {
    path: u64,
    descriptor: u32,
    flags: u32,
}

/// Calls bpf(2). Returns what the kernel returns, a descriptor or 0.
///
/// # Safety
/// `attributes` is the beginning of what `command` reads, and its pointers are valid for that during the call.
unsafe fn bpf<T>(command: libc::c_long, attributes: &T) -> io::Result<i32> {
    // SAFETY: `attributes` is readable for its size, and the kernel takes what is behind it for zero; the caller vouches for the rest.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, &raw const *attributes, mem::size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// # Safety
/// As [`bpf`]; and `command` returns a new descriptor.
unsafe fn bpf_descriptor<T>(command: libc::c_long, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the caller vouches for it.
    let number = unsafe { bpf(command, attributes) }?;
    // SAFETY: the kernel has just made it, close-on-exec, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Makes an array, all zero.
pub(crate) fn create_shared_array() -> io::Result<OwnedFd> {
    let attributes = MapCreate {
        map_type: BPF_MAP_TYPE_ARRAY,
        key_bytes: mem::size_of::<u32>() as u32,
        value_bytes: mem::size_of::<SharedArray>() as u32,
        entries_max: 1,
        flags: BPF_F_MMAPABLE,
    };
    // SAFETY: numbers alone, in the order of `union bpf_attr`; it returns a descriptor.
    unsafe { bpf_descriptor(BPF_MAP_CREATE, &attributes) }
}

/// Loads a program that chooses a socket.
pub(crate) fn load_program(instructions: &[ExtendedInstruction]) -> io::Result<OwnedFd> {
    let license = c"MIT";
    let attributes = ProgramLoad {
        program_type: BPF_PROG_TYPE_SOCKET_FILTER,
        instruction_count: u32::try_from(instructions.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        instructions: instructions.as_ptr() as u64,
        license: license.as_ptr() as u64,
    };
    // SAFETY: in the order of `union bpf_attr`. The instructions are as many as is said and laid out as `struct bpf_insn`; both pointers
    // outlive the call, which only reads them, and returns a descriptor.
    unsafe { bpf_descriptor(BPF_PROG_LOAD, &attributes) }
}

fn c_path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

/// Gives an array or a program a name, so that it outlives this process.
pub(crate) fn pin(object: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let path = c_path(path)?;
    let attributes =
        Object { path: path.as_ptr() as u64, descriptor: object.as_raw_fd().cast_unsigned(), flags: 0 };
    // SAFETY: in the order of `union bpf_attr`; the path ends with a zero and outlives the call.
    unsafe { bpf(BPF_OBJ_PIN, &attributes) }.map(drop)
}

/// Opens what has this name, for reading and writing.
pub(crate) fn open_pinned(path: &Path) -> io::Result<OwnedFd> {
    let path = c_path(path)?;
    let attributes = Object { path: path.as_ptr() as u64, descriptor: 0, flags: 0 };
    // SAFETY: in the order of `union bpf_attr`; the path ends with a zero and outlives the call, which returns a descriptor.
    unsafe { bpf_descriptor(BPF_OBJ_GET, &attributes) }
}

/// The program chooses for the reuseport group of `socket` from now on.
pub(crate) fn choose_by_loaded(socket: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    let number = program.as_raw_fd();
    // SAFETY: an int has no pointers.
    unsafe { set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_EBPF, &number) }
}

/// An array in this process's memory. Unmapped when dropped.
#[derive(Debug)]
pub(crate) struct MappedArray(NonNull<SharedArray>);

impl MappedArray {
    /// Maps the array of a descriptor.
    pub(crate) fn new(array: BorrowedFd<'_>) -> io::Result<Self> {
        // SAFETY: a new mapping at an address that the kernel chooses overlaps nothing.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mem::size_of::<SharedArray>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                array.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self(NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?))
    }

    pub(crate) fn array(&self) -> &SharedArray {
        // SAFETY: the mapping has at least a page, into which the array fits, from the beginning of a page on; it lives as long as self.
        // Any bytes are valid atomics, and whoever has the array, the kernel included, only reads and writes numbers of their sizes.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for MappedArray {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped, and every borrow of it has ended.
        let _ = unsafe { libc::munmap(self.0.as_ptr().cast(), mem::size_of::<SharedArray>()) };
    }
}

// SAFETY: it is accessed as atomics only, and unmapped once.
unsafe impl Send for MappedArray {}
// SAFETY: as above.
unsafe impl Sync for MappedArray {}
