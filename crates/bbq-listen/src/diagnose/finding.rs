//! What of a group is not as it was asked for, all in one list: for a status page, or a line in the log at the start.

use std::fmt;

use crate::{Distribution, ForeignMember, Group, RECEIVE_BUFFER_BYTES_DEFAULT};

/// Something about a group that is not as it was asked for: [`Group::diagnose`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::net::TcpListener;
///
/// use bbq_listen::{Finding, Group};
///
/// let socket = TcpListener::bind("127.0.0.1:0")?;
/// let group = Group::at("127.0.0.1:0")?.workers(4).adopt([socket])?;
/// let findings = group.diagnose();
/// assert!(matches!(findings[..], [Finding::Fallback { .. }]));
/// println!("{}", findings[0]); // spread by shared instead of auto: one socket was handed over
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// The group is spread in another way than it was asked for, or than `auto` prefers: so is one socket that was adopted for several
    /// workers, which share it.
    Fallback {
        /// What was asked for.
        configured: Distribution,
        /// What is in use.
        distribution: Distribution,
        /// Why.
        reason: String,
    },
    /// The kernel granted a smaller receive buffer than was asked for: raise `net.core.rmem_max`.
    ReceiveBuffer {
        /// The bytes that were asked for.
        wanted: u32,
        /// The bytes that the system granted.
        granted: u32,
    },
    /// A socket of another program is at the address.
    ForeignMember(ForeignMember),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fallback { configured, distribution, reason } => {
                write!(f, "spread by {distribution} instead of {configured}: {reason}")
            }
            Self::ReceiveBuffer { wanted, granted } => write!(
                f,
                "the receive buffer has {granted} of {wanted} bytes; raise the sysctl net.core.rmem_max"
            ),
            Self::ForeignMember(member) => {
                write!(f, "a socket of user {} is also bound to {}", member.user, member.address)
            }
        }
    }
}

impl Group {
    /// What is not as it was asked for; empty if all is. [`steering`](Self::steering) says which steering is in use.
    ///
    /// It makes some system calls, as [`foreign_members`](Self::foreign_members). Where netlink is blocked, foreign members are
    /// unknown and left out.
    pub fn diagnose(&self) -> Vec<Finding> {
        let fallback = self.unwanted_fallback().map(|reason| Finding::Fallback {
            configured: self.configured(),
            distribution: self.distribution(),
            reason: reason.to_owned(),
        });
        let wanted = self.options.receive_buffer_bytes.unwrap_or(RECEIVE_BUFFER_BYTES_DEFAULT);
        let granted = self.receive_buffer_bytes.filter(|granted| *granted < wanted);
        let buffer = granted.map(|granted| Finding::ReceiveBuffer { wanted, granted });
        let foreign = self.foreign_members().unwrap_or_default();
        fallback.into_iter().chain(buffer).chain(foreign.into_iter().map(Finding::ForeignMember)).collect()
    }

    /// The [`fallback`](Self::fallback), unless `auto` has chosen what is best: one worker needs one socket, and a unix socket is one.
    pub(crate) fn unwanted_fallback(&self) -> Option<&str> {
        let is_choice = self.configured() == Distribution::Auto
            && (self.workers() == 1 || self.local_address().transport().is_unix());
        self.fallback().filter(|_| !is_choice)
    }
}
