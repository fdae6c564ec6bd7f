//! The body of a request, held until it is complete. It counts towards the worker's memory for unfinished messages.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use tokio::time::{Instant, sleep};

use super::refused::Refused;
use crate::worker::holders::Hold;
use crate::worker::intake::Intake;

/// Memory that is asked for before anything has come, whatever a client announces.
const FIRST_BYTES_MAX: u64 = 64 * 1024;

/// A complete body.
pub(super) struct HeldBody {
    pub(super) bytes: Vec<u8>,
    intake: Rc<Intake>,
    hold: Hold,
}

impl Drop for HeldBody {
    fn drop(&mut self) {
        self.intake.holders.release(&mut self.hold);
    }
}

impl HeldBody {
    /// Reads a body of at most so many bytes.
    pub(super) async fn read(
        intake: &Rc<Intake>,
        mut body: Incoming,
        bytes_max: usize,
    ) -> Result<HeldBody, Refused> {
        let announced = body.size_hint().lower();
        if announced > bytes_max as u64 {
            return Err(Refused::BodyTooLarge { bytes_max });
        }
        let first = usize::try_from(announced.min(FIRST_BYTES_MAX)).unwrap_or(0);
        let mut held =
            HeldBody { bytes: Vec::with_capacity(first), intake: Rc::clone(intake), hold: Hold::default() };
        let patience = Duration::from_secs(intake.limits.batch_timeout_seconds.into());
        let mut late = pin!(sleep(patience));
        loop {
            let frame = tokio::select! {
                biased;
                // A round begins, or some holders have to go.
                () = intake.rounds.told() => {
                    if intake.holders.must_go(&held.hold) {
                        return Err(Refused::NoMemory);
                    }
                    continue;
                }
                frame = body.frame() => frame,
                () = &mut late => return Err(Refused::Late),
            };
            late.as_mut().reset(Instant::now() + patience);
            let Some(frame) = frame else { break };
            let Ok(data) = frame.map_err(|_| Refused::Incomplete)?.into_data() else { continue };
            if held.bytes.len() + data.len() > bytes_max {
                return Err(Refused::BodyTooLarge { bytes_max });
            }
            held.bytes.extend_from_slice(&data);
            let capacity = held.bytes.capacity();
            if intake.holders.set(&mut held.hold, capacity).is_err() || intake.holders.must_go(&held.hold) {
                return Err(Refused::NoMemory);
            }
        }
        // It waits for the server from here on.
        intake.holders.set_may_go(&held.hold, false);
        Ok(held)
    }
}
