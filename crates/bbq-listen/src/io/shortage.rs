//! What the system has run out of, when a batch ends early.

use std::fmt;

use rustix::io::Errno;

/// What the system has run out of. It prints as a reason: `no descriptors left in this process (EMFILE)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Shortage {
    /// Descriptors of this process: its limit is reached (`EMFILE`).
    ProcessDescriptors,
    /// Descriptors of the whole system (`ENFILE`).
    SystemDescriptors,
    /// Memory of the kernel (`ENOBUFS`, `ENOMEM`).
    Memory,
}

impl Shortage {
    /// `None` for an error that is no shortage.
    pub(crate) fn of(errno: Errno) -> Option<Self> {
        match errno {
            Errno::MFILE => Some(Self::ProcessDescriptors),
            Errno::NFILE => Some(Self::SystemDescriptors),
            Errno::NOBUFS | Errno::NOMEM => Some(Self::Memory),
            _ => None,
        }
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ProcessDescriptors => "no descriptors left in this process (EMFILE)",
            Self::SystemDescriptors => "no descriptors left in the system (ENFILE)",
            Self::Memory => "no memory left in the kernel (ENOBUFS or ENOMEM)",
        })
    }
}
