//! The protocols of other programs' senders: bytes become [`Events`](bbq_wire::batch::Events), and what became of them an answer.
//!
//! Each protocol is a module of its own, which gives its sender the answer that its own server would give.
//!
//! Not here: HTTP, connections and the disk (`bbq-intake`).
//!
//! Invariant: no bytes make it panic, and no input makes it hold more than a small multiple of its length.
