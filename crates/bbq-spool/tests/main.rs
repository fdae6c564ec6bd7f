//! What the spool promises, one promise per file.

#![expect(clippy::unwrap_used, reason = "helpers are tests too: one that cannot go on has failed")]

mod crash_consistency;
mod damage;
mod directory_lock;
mod drop_oldest;
mod failed_sync;
mod full_disk;
mod hostile_files;
mod large_groups;
mod real_disk;
mod recycled;
mod stress;
mod support;
mod version_1;
mod watchers;
