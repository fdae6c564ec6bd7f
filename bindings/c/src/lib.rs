//! libbbq: bbq-client's sender behind a C ABI. `include/bbq.h` is made from this crate and says how it is used.
//!
//! Not here: anything that sends. C++ is thin headers on the C ABI (`include/bbq.hpp`, `include/bbq_spdlog.hpp`).
//!
//! Invariant: no panic leaves a function that C calls (`boundary`).
//! Invariant: numbers are append-only. Structs that C allocates begin with their size, or never change.
//! Invariant: in a forked child nothing of the parent's is locked, joined or dropped (`process`).

#![expect(unsafe_code, reason = "C passes pointers; each is used in one block that says why it may be")]
#![expect(unreachable_pub, reason = "C reaches them; and cbindgen puts into the header what is pub")]

mod at_exit;
mod boundary;
mod choices;
mod counters;
mod failure;
mod handle;
mod notice;
mod options;
mod pointer;
mod process;
mod progress;
mod reconnect;
mod version;
