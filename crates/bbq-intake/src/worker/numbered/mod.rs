//! Records of a request whose sender has numbered them: a repeated request is harmless, as with the sessions of bbq clients.
//!
//! ```text
//! request at a worker --NumberedBatch--> home of the stream here? --> its lane --durable--> Waiters --> Stream --> the request
//!                                        home elsewhere? --HandedRequest--> inbox of that worker --^
//! ```
//!
//! A request owns its stream only while it is appended, so requests of one stream may come over different connections. Numbers
//! may not be skipped: a request that overtakes an earlier one is refused, and can be sent again.
//!
//! Not here: what a request looks like (`http`).

mod append;
mod batch;
mod handed;
mod request;

pub(crate) use append::{ROOM_PATIENCE, keep, serve_handed};
pub use batch::{Kept, NotKept};
pub(crate) use batch::{NumberedBatch, Numbers};
pub(crate) use handed::HandedRequest;
pub use request::{NumberedRequest, RequestStep};
