//! libbbq: the sender of bbq-client behind a C ABI, and `bbq_receive` for programs that the server starts (its sink `exec:`). `include/bbq.h` is generated from this crate and says how to use it. The C++ headers
//! (`include/bbq.hpp`, `include/bbq_spdlog.hpp`) are thin layers on the C ABI.
//!
//! A parameter of type `Option<&T>` is a pointer that may be null. That other pointers are valid, the contract in bbq.h demands.
//!
//! Invariant: no panic leaves a function that C calls (`boundary`).
//! Invariant: numbers are append-only. A struct that C allocates begins with its size, or never changes.
//! Invariant: in a forked child nothing of the parent's is locked, joined or dropped (`process`).

#![expect(unsafe_code, reason = "C passes pointers; each is used in one block that says why it may be")]
#![expect(unreachable_pub, reason = "C reaches them; and cbindgen puts into the header what is pub")]

mod at_exit;
mod boundary;
mod choices;
mod counters;
mod failure;
mod handle;
mod lines;
mod notice;
mod options;
mod pipes;
mod pointer;
mod process;
mod progress;
mod receive;
mod reconnect;
mod version;
