//! The one policy of all destinations that take requests.
//!
//! ```text
//! span -> part -> Exchange: a request and its Answer -> Verdict -> confirmed, halved, sent again, set apart
//!                 the kind of sink                      the policy
//! ```
//!
//! A kind says what a request is and what a response means (`exchange`). All else is here and the same for each: how many requests at a time, sizes that are learned,
//! time-outs, halving, refusals and what they say of a receiver, messages on which a receiver fails, other receivers, and when one wants
//! to be left alone.

mod answer;
mod body_bytes;
mod clock;
mod concurrency;
mod exchange;
mod options;
mod policy;
mod receivers;
mod refusals;
mod sink;

pub use answer::{Answer, Verdict};
pub use clock::SteppedClock;
pub use exchange::Exchange;
pub use options::{REQUEST_OPTIONS, RequestOptions};
pub use receivers::Receiver;
pub use sink::{RequestSink, open_request_sink, open_stepped_request_sink};
