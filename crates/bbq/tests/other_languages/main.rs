//! Senders in C and C++, and the backends for Rust's logging.
//!
//! One program for all of them, as each program costs seconds to link. A test that changes what belongs to its whole process
//! (limits, signals, who inherits orphans), runs itself again by its name, or needs the machine to itself has a program of its
//! own, beside this directory.

#[path = "../../../bbq-client/tests/support/authority.rs"]
#[expect(dead_code, reason = "the tests of bbq-client use more of it")]
mod authority;
mod c_examples;
mod c_exit;
mod c_fork;
mod c_misuse;
mod c_tls;
mod rust_logging;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/tls_proxy.rs"]
mod tls_proxy;
