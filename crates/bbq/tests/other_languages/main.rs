//! Senders and receivers in C and C++, and the backends for Rust's logging.

#[path = "../../../bbq-client/tests/support/authority.rs"]
#[expect(dead_code, reason = "the tests of bbq-client use more of it")]
mod authority;
mod c_examples;
mod c_exit;
mod c_fork;
mod c_misuse;
mod c_receive;
mod c_tls;
mod rust_logging;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/tls_proxy.rs"]
mod tls_proxy;
