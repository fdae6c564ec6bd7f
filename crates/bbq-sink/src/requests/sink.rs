//! A sink that makes requests: an [`AsyncSink`] whose destination is the policy with a kind's exchange.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::clock::{Clock, SteppedClock};
use super::exchange::Exchange;
use super::options::RequestOptions;
use super::policy::Policy;
use super::refusals::Refusals;
use crate::async_sink::{AsyncSink, Destination};
use crate::interface::{OpenError, Sink};
use crate::span::Delivery;

/// What makes a sink of an [`Exchange`].
pub struct RequestSink<E: Exchange> {
    /// The name of the sink, for the log.
    pub name: String,
    /// The servers of the SPEC, of which there is at least one.
    pub servers: Vec<E::Server>,
    /// What makes a receiver take messages or not: its address and the format. Under another one, the sink knows nothing of what was taken.
    pub of: String,
    /// What to check if a receiver takes nothing, for people.
    pub check: &'static str,
    /// The receivers know messages by their part, which begins and ends at the same messages each time.
    pub keeps_cuts: bool,
    /// What the SPEC says.
    pub options: RequestOptions,
    /// The kind's own.
    pub exchange: E,
}

/// Opens a sink. `state` is what the cursor remembers of it.
///
/// # Errors
/// Its runtime cannot be made; try again.
pub fn open_request_sink<E: Exchange>(
    sink: RequestSink<E>,
    state: Option<&str>,
) -> Result<Box<dyn Sink>, OpenError> {
    open_at(Clock::default(), sink, state)
}

/// The same with a clock that a simulation steps.
///
/// # Errors
/// As [`open_request_sink`].
pub fn open_stepped_request_sink<E: Exchange>(
    sink: RequestSink<E>,
    state: Option<&str>,
    clock: &Arc<SteppedClock>,
) -> Result<Box<dyn Sink>, OpenError> {
    open_at(Clock::stepped(Arc::clone(clock)), sink, state)
}

fn open_at<E: Exchange>(
    clock: Clock,
    sink: RequestSink<E>,
    state: Option<&str>,
) -> Result<Box<dyn Sink>, OpenError> {
    let RequestSink { name, servers, of, check, keeps_cuts, options, exchange } = sink;
    let policy = Policy::new(name, servers, Refusals::new(of, check, state), keeps_cuts, options, clock);
    let destination = RequestDestination { policy, exchange, keeps_cuts };
    Ok(Box::new(AsyncSink::new(destination).map_err(OpenError::NotYet)?))
}

struct RequestDestination<E: Exchange> {
    policy: Policy<E::Server>,
    exchange: E,
    keeps_cuts: bool,
}

impl<E: Exchange> Destination for RequestDestination<E> {
    fn knows_parts(&self) -> bool {
        self.keeps_cuts
    }

    fn deliveries_max(&self) -> usize {
        self.policy.in_flight_max()
    }

    fn takes_within(&self) -> Duration {
        self.policy.takes_within()
    }

    async fn deliver(&self, delivery: &mut Delivery) -> io::Result<()> {
        self.policy.deliver(delivery, &self.exchange).await
    }

    fn state(&self) -> String {
        self.policy.state()
    }
}
