//! The worker that is to stall.

use std::fs;

use anyhow::Context;

use crate::cpu;
use crate::pause::wait_for;
use crate::process::END_WITHIN;

/// A thread of a server.
#[derive(Debug)]
pub(crate) struct Victim {
    /// The first process of the server.
    pub(super) server: u32,
    /// The number of the thread; that of a process which has no other.
    pub(super) thread: u32,
}

impl Victim {
    /// The thread of this name. It gets its name a moment after it was started.
    pub(crate) fn thread(server: u32, name: &str) -> anyhow::Result<Victim> {
        let named = |thread: &u32| {
            fs::read_to_string(format!("/proc/{server}/task/{thread}/comm"))
                .is_ok_and(|comm| comm.trim_end() == name)
        };
        let thread = wait_for(END_WITHIN, || Ok(threads(server).into_iter().find(named)))?;
        Ok(Victim { server, thread: thread.with_context(|| format!("the server has no thread {name}"))? })
    }

    /// The processes that the server has started.
    pub(crate) fn children(server: u32) -> Vec<Victim> {
        cpu::family(server).into_iter().skip(1).map(|thread| Victim { server, thread }).collect()
    }
}

/// The threads of a process.
pub(super) fn threads(process: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
}
