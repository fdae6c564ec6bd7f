//! A run of several groups: its stall monitor, its threads, and its end.
//!
//! It opens no socket, and reads no connection.
//!
//! Invariant: when one worker fails, all end.

use std::fmt;
use std::future::{pending, poll_fn};
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::limits::{DRAIN_TIMEOUT, FIRST_BYTE_GRACE_DEFAULT};
use crate::tokio::crew::{Crew, Present, ThreadPlan};
use crate::tokio::ending::StopTimes;
use crate::tokio::part::Part;
use crate::tokio::successors::Successors;
use crate::{ForeignMember, HandOver, STALL_THRESHOLD_DEFAULT, StallEvent, StallMonitor};

/// How a run is made.
pub(crate) struct Plan {
    pub(crate) stall_threshold: Duration,
    pub(crate) on_stall: Box<dyn FnMut(StallEvent) + Send>,
    pub(crate) on_foreign_member: Option<Box<dyn FnMut(ForeignMember) + Send>>,
    pub(crate) times: StopTimes,
    pub(crate) yields_before_sleep: bool,
    pub(crate) hand_over: Option<HandOver>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            stall_threshold: STALL_THRESHOLD_DEFAULT,
            on_stall: Box::new(drop),
            on_foreign_member: None,
            times: StopTimes { drain: DRAIN_TIMEOUT, first_byte_grace: FIRST_BYTE_GRACE_DEFAULT },
            yields_before_sleep: false,
            hand_over: None,
        }
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("stall_threshold", &self.stall_threshold)
            .field("times", &self.times)
            .field("yields_before_sleep", &self.yields_before_sleep)
            .field("hand_over", &self.hand_over)
            .finish_non_exhaustive()
    }
}

/// Runs the workers of all groups until `until` completes, a worker fails, or all have ended.
pub(crate) fn run(
    parts: &[Part<'_>],
    plan: Plan,
    runtime: &Runtime,
    until: impl Future<Output = ()>,
) -> io::Result<()> {
    let Plan { stall_threshold, on_stall, on_foreign_member, times, yields_before_sleep, hand_over } = plan;
    let monitor = StallMonitor::start(parts.iter().map(|part| part.group), stall_threshold, on_stall)?;
    if let Some(tell) = on_foreign_member {
        monitor.on_foreign_member(tell);
    }
    // Before the first look at the number of workers.
    let mut resizes: Vec<_> = parts.iter().map(|part| part.group.inner().resized.subscribe()).collect();
    thread::scope(|scope| {
        let (present, mut presence) = watch::channel(Present::default());
        let mut crew = Crew::new(scope, parts, ThreadPlan { times, yields_before_sleep }, present);
        parts.iter().try_for_each(|part| part.group.resume())?;
        crew.follow()?;
        runtime
            .block_on(async {
                let mut until = pin!(until);
                let mut replaced = pin!(replaced(hand_over, parts, presence.clone()));
                loop {
                    tokio::select! {
                        () = &mut until => return Ok(()),
                        error = &mut replaced => return error.map_or(Ok(()), Err),
                        _ = presence.wait_for(Present::is_over) => return Ok(()),
                        () = any_changed(&mut resizes) => crew.follow()?,
                    }
                }
            })
            .and(crew.end())
    })
}

/// Completes when a successor serves, or with an error if none could be heard.
async fn replaced(
    hand_over: Option<HandOver>,
    parts: &[Part<'_>],
    mut presence: watch::Receiver<Present>,
) -> Option<io::Error> {
    let Some(hand_over) = hand_over else { return pending().await };
    // An error means that the run is over.
    drop(presence.wait_for(Present::is_serving).await);
    let groups: Vec<_> = parts.iter().map(|part| part.group).collect();
    match Successors::listen(hand_over, &groups) {
        Ok(successors) => {
            successors.one_serves(&groups).await;
            None
        }
        Err(error) => Some(error),
    }
}

/// Completes when one of the groups was resized.
async fn any_changed(resizes: &mut [watch::Receiver<()>]) {
    let mut changes: Vec<_> = resizes.iter_mut().map(|resized| Box::pin(resized.changed())).collect();
    poll_fn(|context| {
        // A group is borrowed for the whole run, so that none is closed.
        let is_changed = changes.iter_mut().any(|change| change.as_mut().poll(context).is_ready());
        if is_changed { Poll::Ready(()) } else { Poll::Pending }
    })
    .await
}
