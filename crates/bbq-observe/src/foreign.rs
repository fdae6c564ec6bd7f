//! Sockets of other processes at a listener's address: logged when they come and go, and shown in the status.
//!
//! With SO_REUSEPORT a process of the same user can join at any time. The messages that it takes are in no ledger, and nothing
//! else shows that they are missing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bbq_listen::{Group, Holder};
use tracing::{info, warn};

use crate::status::ForeignStatus;

/// Foreign sockets that are looked up and shown for each listener. Each needs a search through /proc, and this many are enough to
/// find the processes.
const MEMBERS_MAX: usize = 64;

/// Who else listens at an address.
#[derive(Debug)]
pub(crate) struct Strangers {
    pub(crate) sockets: usize,
    /// Of the processes, with a comma between two.
    pub(crate) names: String,
    /// Of those that the system tells.
    pub(crate) pids: Vec<String>,
}

/// The foreign sockets of one listener.
#[derive(Debug, Default)]
pub(crate) struct ForeignWatch {
    /// By inode, with the holder where the system tells.
    known: Mutex<BTreeMap<u64, Option<Holder>>>,
    /// Whether it was logged that the system does not list the sockets.
    blind: AtomicBool,
}

impl ForeignWatch {
    /// Checks which sockets there are. With a new socket this may take a tenth of a second: not for a worker's thread.
    pub(crate) fn check(&self, listener: &str, group: &Group) {
        let members = match group.foreign_members() {
            Ok(members) => {
                self.blind.store(false, Ordering::Relaxed);
                members
            }
            Err(error) => {
                if !self.blind.swap(true, Ordering::Relaxed) {
                    warn!(listener, %error, "cannot check whether other processes listen at this address");
                }
                return;
            }
        };
        let mut gone = self.known().clone();
        for member in members {
            if gone.remove(&member.inode).is_some() || self.known().len() >= MEMBERS_MAX {
                continue;
            }
            let holder = member.holder();
            // A socket of this process that is being opened or closed.
            if holder.as_ref().is_some_and(|holder| holder.pid == std::process::id()) {
                continue;
            }
            warn!(
                listener,
                address = %member.address,
                pid = holder.as_ref().map(|holder| holder.pid),
                command = holder.as_ref().map(|holder| holder.command.as_str()),
                user = member.user,
                inode = member.inode,
                "another process also listens at this address, and takes senders that never reach this server: stop it"
            );
            self.known().insert(member.inode, holder);
        }
        for (inode, holder) in gone {
            let pid = holder.map(|holder| holder.pid);
            info!(listener, pid, inode, "the other process no longer listens at this address");
            self.known().remove(&inode);
        }
    }

    /// The foreign sockets, by inode.
    pub(crate) fn members(&self) -> Vec<ForeignStatus> {
        let member = |(inode, holder): (&u64, &Option<Holder>)| ForeignStatus {
            inode: *inode,
            pid: holder.as_ref().map(|holder| holder.pid),
            command: holder.as_ref().map(|holder| holder.command.clone()),
        };
        self.known().iter().map(member).collect()
    }

    /// All foreign sockets, if there are any.
    pub(crate) fn strangers(&self) -> Option<Strangers> {
        let known = self.known();
        let mut holders: Vec<&Holder> = known.values().flatten().collect();
        holders.sort_unstable_by_key(|holder| holder.pid);
        holders.dedup_by_key(|holder| holder.pid);
        let mut names: Vec<String> = holders.iter().map(ToString::to_string).collect();
        if known.values().any(Option::is_none) {
            names.push("a process that /proc does not show".to_owned());
        }
        let pids = holders.iter().map(|holder| holder.pid.to_string()).collect();
        (!known.is_empty()).then(|| Strangers { sockets: known.len(), names: names.join(", "), pids })
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<u64, Option<Holder>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
