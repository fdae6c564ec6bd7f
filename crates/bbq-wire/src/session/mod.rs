//! The session: what client and server say around the batches of one stream, over any byte stream (TCP, unix).
//!
//! ```text
//! client                                server
//!   hello (stream, wanted ack level)  ->
//!                                     <-  welcome (last durable sequence, granted level, limits)
//!   batch, batch, batch ...           ->
//!                                     <-  ack (sequence) ...
//!                                     <-  refusal (code, text), then the server closes
//!
//! control frame: header of 16 bytes, little-endian, and a payload
//!   0   4  magic             "BBQC"
//!   4   4  crc               CRC-32C of every byte behind this field, to the end of the payload
//!   8   4  payload_bytes     0 ..= 4096
//!  12   1  kind              1 hello, 2 welcome, 3 ack, 4 refusal; append-only
//!  13   1  version           1
//!  14   2  reserved          0
//!  16      payload           a receiver passes over bytes behind the fields it knows
//! ```
//!
//! Batches travel between control frames as they are; the magic tells them apart. docs/PROTOCOL.md is the same for
//! people who write a client in another language.
//!
//! Not here: sockets, time-outs, what is durable, which connection of a stream is the newest (bbq-server), and what to
//! send again (bbq-client).
//!
//! Invariant: a step depends on the bytes from the start of the item alone, never on how they were split.
//! Invariant: an item that is not whole asks for a bounded number of bytes, known from its header.

mod ack;
mod client;
mod error;
mod format;
mod frame;
mod hello;
mod refusal;
mod server;
mod token;
mod welcome;

pub use ack::{ACK_FRAME_BYTES, AckLevel, encode_ack};
pub use client::{ClientSession, ClientStep};
pub use error::SessionError;
pub use hello::{Hello, Progress};
pub use refusal::{Refusal, RefusalCode, UnsureNumbers};
pub use server::{ServerSession, ServerStep};
pub use token::Token;
pub use welcome::Welcome;

/// The TCP port of a server whose address has none.
pub const PORT_DEFAULT: u16 = 7700;
