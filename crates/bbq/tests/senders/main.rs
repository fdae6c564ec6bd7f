//! bbq senders (the library, and the program `bbq send`), and senders by HTTP.
//!
//! One program for all of them, as each program costs seconds to link. A test that changes what belongs to its whole process
//! (limits, signals, who inherits orphans), runs itself again by its name, or needs the machine to itself has a program of its
//! own, beside this directory.

#[path = "../../../bbq-client/tests/support/authority.rs"]
#[expect(dead_code, reason = "the tests of bbq-client use more of it")]
mod authority;
mod bbq_client_at_text_listener;
mod client_killed;
mod client_server_killed;
mod client_servers;
mod client_stalled;
#[path = "../support/curl.rs"]
mod curl;
mod http;
mod http2;
mod http_coding;
mod http_logs;
mod http_numbered;
mod send_addresses;
mod send_failures;
mod send_lines;
#[path = "../support/mod.rs"]
mod support;
mod tls;
#[path = "../support/tls_proxy.rs"]
mod tls_proxy;
