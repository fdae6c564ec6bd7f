//! GELF over UDP, TCP and unix sockets. Its senders wait for no answer.
//!
//! ```text
//! connection --framer--> JSON --+
//! datagram ----+--decoded------>+--frames--> messages with fields --> the listener's batch
//!              +--Chunks--------^
//! ```
//!
//! What a message says is read by bbq-senders (`gelf`), and bbq-wire cuts connections. This module has what comes of that (`frames`), datagrams
//! (`datagram`), the assembly of chunks, which all workers share (`shared`), and compression (`decoded`).

mod datagram;
mod decoded;
mod frames;
mod shared;

pub(crate) use datagram::take;
pub(crate) use shared::ChunksOfWorker;
pub use shared::GelfChunks;
