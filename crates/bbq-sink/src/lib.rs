//! What all sinks of bbq's server have in common: each reads all lanes on its own thread, at its own pace, and remembers how far it has come.
//!
//! ```text
//! lanes -> readers -> driver -> submit -> sink -> destination
//!            cursor <-  |  <- settled -  |
//! ```
//!
//! A kind of sink is a crate that implements [`Sink`] (`interface`) and has a [`Kind`]; the `driver` is the same for all. From time to time
//! the driver makes the destination durable, and then the cursor. So the cursor never covers more than the destination holds.
//! After a failure the driver rolls back to the last commit and submits again what came after it. A failing destination is retried
//! for as long as the server runs; nothing else waits for it until the spool is full.
//!
//! Two frames make a [`Sink`] of less. [`RequestSink`] makes one of an [`Exchange`]: a request and what its response means. [`LinkSink`] makes
//! one of a [`Link`] that holds a connection and sends groups in order; [`OutgoingGroups`] is what such a link takes them from.

#![forbid(unsafe_code)]

mod again;
mod async_sink;
mod backlog;
mod dead_letters;
mod delivery;
mod driver;
mod driver_parts;
mod format_option;
mod held_back;
mod in_flight;
mod interface;
mod intervals;
mod kind;
mod kinds;
mod last_group;
mod ledger;
mod lenses;
mod link_sink;
mod losses;
mod null;
mod opening;
mod orders;
mod outgoing;
mod phases;
mod positions;
mod proxy;
mod refused;
mod rejected;
mod requests;
mod resend;
mod resolver;
mod servers;
mod skip;
mod span;
mod spec;
mod step;
mod tasks;
mod texts;
mod thread;
pub mod tls_options;
mod too_large;
pub use again::Again;
pub use backlog::{OVER_LIMIT, common_options, rfc3339_ns};
pub use dead_letters::DEAD_LETTERS_OPTION;
pub use delivery::{Part, PartLimits, PendingGroup, Place, Range};
pub use driver::SinkDriver;
pub use format_option::{FORMAT_WORDS, format_option};
pub use interface::{Commit, Now, OpenError, Problem, Room, Settled, Sink, TAKES_WITHIN};
pub use intervals::{Intervals, ONE_APART};
pub use kind::{Kind, SERVERS_MAX, Surplus, Target};
pub use kinds::{Kinds, LeftOut};
pub use last_group::{CONFLICT, Compared, Doubts, LastGroup, TAKEN_OVER, Unproven};
pub use ledger::{Account, OLDEST, REFUSED, SINK_DROP_REASONS, SinkLedger, reason_name};
pub use link_sink::{Link, LinkSink, Links, SetAside};
pub use losses::Losses;
pub use null::NULL;
pub use opening::{SURPLUS_REMEDY, SinkOpening};
pub use orders::{Done, Order, Orders, Resent, Skip, Task};
pub use outgoing::{Encode, Known, Outcomes, OutgoingGroups, Rejection};
pub use phases::{Interrupted, Lifecycle, Phase, SinkLifecycle};
pub use positions::{Position, Positions, Stored};
pub use proxy::{PROXY, Proxy, ProxyConnector};
pub use refused::{REFUSED_MAX, REFUSED_RUNS_MAX, Reason, Refused};
pub use rejected::DeadLetter;
pub use requests::{
    Answer, Exchange, REQUEST_OPTIONS, Receiver, RequestOptions, RequestSink, SteppedClock, Verdict,
    open_request_sink, open_stepped_request_sink,
};
pub use resend::{Meantime, Resender};
pub use resolver::Resolver;
pub use servers::{parse_servers, with_port};
pub use spec::SinkSpec;
pub use step::{Goal, SinkStep};
pub use tasks::wait_for_task;
pub use texts::Texts;
pub use thread::PendingSink;
pub use too_large::TooLarge;
