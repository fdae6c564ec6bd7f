//! HTTP: by default, a request is answered when its messages are on disk.
//!
//! hyper reads requests and writes responses. This module decides what a request means (`request`, `route`, `headers`), how its body
//! is held (`body`), decoded (`coding`) and cut (`messages`, `logs`), how it is stored (`store`) and answered (`response`, `refused`),
//! how long a connection lives, and how it moves to the next worker (`connection`, `open`, `prefixed`, `socket`), and what it may cost
//! (`overhead`, `pace`, `turned_away`). Requests of other programs' senders have paths of their own (`senders`). gRPC (`grpc`) is HTTP/2 with a frame around one message and a status after it.

mod authorization;
mod body;
mod coding;
mod connection;
mod grpc;
mod headers;
mod logs;
mod messages;
mod open;
mod origin;
mod overhead;
mod pace;
mod prefixed;
mod refused;
mod request;
mod response;
mod response_body;
mod route;
mod senders;
mod socket;
mod source;
mod store;
mod turned_away;

#[cfg(fuzzing)]
pub(crate) use coding::fuzzed_body;
pub(crate) use coding::{Coding, Decoder};
pub(crate) use connection::{begin, resume, too_many};
#[cfg(fuzzing)]
pub(crate) use grpc::fuzzed_prefix;
#[cfg(fuzzing)]
pub(crate) use headers::fuzzed_numbers;
pub(crate) use open::{Activity, OpenHttp, Registered};
pub(crate) use turned_away::TurnedAway;
