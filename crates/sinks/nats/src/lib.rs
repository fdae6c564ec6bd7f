//! `nats://HOST:PORT/SUBJECT` publishes to a stream of NATS JetStream: each message is there exactly once, and the messages of one
//! sender are in order, whatever is killed and for however long the server or bbq is away.
//!
//! JetStream recognizes duplicates only within a window of time, and keeps their ids in memory. So here the stream itself knows how
//! far bbq is. Messages go in atomic batches (ADR-50; nats-server 2.12.1 or newer): behind the messages of a batch is one about the
//! *progress*, with the position of each lane, on a subject that only this sink writes to.
//!
//! ```text
//! Nats-Batch-Id: b  Nats-Batch-Sequence: 1        logs.web     a message
//! Nats-Batch-Id: b  Nats-Batch-Sequence: 2        logs.mail    a message
//! Nats-Batch-Id: b  Nats-Batch-Sequence: 3        bbq.progress.<id of the sink>    writer, and positions of the lanes
//!     Nats-Batch-Commit: 1  Nats-Expected-Last-Subject-Sequence: <place of the progress before it>
//! ```
//!
//! A full batch ends with a *mark* behind that, so that the next one can follow before the server responds: see `marks`.
//!
//! The server takes the whole batch or nothing of it, and only behind the progress that bbq names. Whenever it is in doubt what the
//! server has (a start, a connection that ended, a response that did not come), bbq asks the stream's leader for the last progress
//! and goes on behind it. What was sent before and still comes is refused. When a sink is opened it first publishes progress with
//! the name of a new writer: an older writer that still lives is refused from then on, and sees why.
//!
//! The progress has a subject of its own because the messages may be on any subjects, which several servers may share: neither
//! the last message of their subject nor of the stream would be this sink's. It costs one message per batch. Older progress stays in
//! the stream: after the server has lost the end of its disk, the last one that is left says exactly what else is left.
//!
//! In a cluster the stream's leader responds. One that was replaced and does not know of it may tell of older progress: what is published
//! behind that, the cluster refuses, and the next connection asks again. What was published to a leader that is killed gets no response;
//! it is in the stream or not, as the progress says that the next leader has.
//!
//! JetStream acknowledges before it syncs its disk. When the server comes back with less than it has acknowledged, bbq sees it by
//! the positions, sends again what is still here, and logs what is not.
//!
//! A message whose subject is forbidden to the user is set apart (`forbidden`, `permission`). The progress names it until it is a dead letter, as it would
//! otherwise count as published after a kill.
//!
//! Messages on their way are never kept in memory as they are sent: after a failure they are made again from their groups.
//!
//! `run` is the task, `link` what it keeps from one connection to the next, `server` a connection, `stream` what is asked about the
//! stream; `atomic` writes batches, each a `batch`, several at once: `marks` keep them in order, `pipeline` says how many, and how
//! large; `window` writes message by message for older servers; `reply` is what a server says of both; `taken` is what they take from the groups, `message` what is
//! made of them; `shared` is what outlives a connection, `settings` what the SPEC says, `target` the SPEC.
//! `fake_server` is for unit tests.
//!
//! Invariant: a group is settled only when the stream has acknowledged all of it, or its messages are too large for the server, or forbidden.
//! Invariant: nothing is published before the progress was read over the same connection.

#![forbid(unsafe_code)]

mod atomic;
mod batch;
mod credentials;
#[cfg(test)]
mod fake_server;
mod forbidden;
mod link;
mod links;
mod marks;
mod message;
mod permission;
mod pipeline;
mod reply;
mod run;
mod server;
mod settings;
mod shared;
mod stream;
mod subject;
mod taken;
mod target;
mod window;

pub use target::NATS;
