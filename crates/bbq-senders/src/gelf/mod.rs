//! Graylog's GELF (go2docs.graylog.org, "GELF"): a message is an object of JSON.
//!
//! ```text
//! {"version": "1.1", "host": "web", "short_message": "...", "full_message": "...", "timestamp": 1.5, "level": 4, "_user": 7}
//! ```
//!
//! Over HTTP it is the body of `POST /gelf`, which is answered (`message`). Over TCP, NUL ends it (`bbq_wire::framing::Gelf`). A datagram is
//! one, may be compressed ([`Compression`]), and may be a chunk of one (`chunks`). Those senders are told nothing, so what can be stored of
//! what they send is stored (`loose`).

mod chunks;
mod compression;
mod loose;
mod message;

pub use chunks::{ASSEMBLY_MS, Assembler, ChunkError, Lost, Sender, is_chunk};
pub use compression::Compression;
pub use loose::Loose;
pub use message::{GelfError, messages, refused, taken};
