//! `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`, `az://ACCOUNT/CONTAINER/PREFIX` and `objects:DIRECTORY` write objects of compressed lines of JSON, each message exactly once.
//!
//! ```text
//! PREFIX/<id>/lane-0/00000000000000000000.ndjson.zst      covers the positions 0 to 81920 of lane 0
//! PREFIX/<id>/lane-0/00000000000000081920.ndjson.zst      covers 81920 to 131072
//! ```
//!
//! The objects of a lane are a chain: the name of each is the position where the one before it ends, and the first is 0. Where an
//! object ends is in its last bytes (`footer`). An object is only ever written if there is none of its name. So whoever writes an
//! object knows that it is the only one behind the one before it, and a message is in one object of the chain:
//!
//! - The answer to a write is lost, or comes late: the write is repeated, and fails because the object exists. What the object covers
//!   is delivered.
//! - bbq is killed after a write and before the cursor covers it: the same name is written again, perhaps with more or fewer groups, and
//!   fails. bbq reads where the object that exists ends, and goes on behind it.
//! - Another bbq of the same data directory still writes: one of the two is first, and the other goes on behind it. Before that, it
//!   looks for the last group of the object in its own lane: one that has a copy of the data directory stops there, and says so.
//! - Groups are lost between two objects (the spool was full): the next object still begins where the one before it ended.
//!
//! Objects are cut between groups, which are the same after each start. The cursor remembers the id and where each chain ends, so that
//! objects may be deleted once the cursor covers them. The id is durable before the first write.
//!
//! `open_object` is an object that is filled, `lane` the objects of a lane, `sink` all of them; `store` is where objects go: a bucket,
//! reached by `connector` with the deadlines of `uploads`, or a `directory`; `folder` puts objects into folders by date;
//! `chains` is what the cursor remembers, `target` the SPEC, as are `gcs` and
//! `azure`. `aws_files` reads the keys of AWS's tools, which `renewed` does again when they have changed.
//!
//! Invariant: a group is settled only when an object that covers it is in the store.
//! Invariant: a lane has at most one write on its way, and it is named by the end of the last object that is known.

#![forbid(unsafe_code)]

mod aws_files;
#[cfg(feature = "azure")]
mod azure;
mod chains;
mod connection;
mod connector;
mod created;
mod directory;
mod folder;
mod footer;
#[cfg(feature = "gcs")]
mod gcs;
mod lane;
mod open_object;
mod renewed;
mod settings;
mod sink;
mod store;
mod target;
#[cfg(test)]
mod test_server;
mod uploads;

#[cfg(feature = "azure")]
pub use azure::AZURE;
#[cfg(feature = "gcs")]
pub use gcs::GCS;
pub use target::{OBJECTS, S3};
