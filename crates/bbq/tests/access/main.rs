//! Who may send: TLS, tokens, the files of unix sockets, and the limits of a listener.

mod address_limit;
mod address_rate;
mod authority;
mod browsers;
mod certificates_replaced;
mod client;
#[path = "../support/curl.rs"]
mod curl;
mod idle_tls;
mod open_to_the_network;
mod peer_process;
mod real_tls_clients;
mod refused;
mod slow_clients;
#[path = "../support/mod.rs"]
mod support;
mod through_tls;
mod tls_configuration;
mod tokens;
mod unix_files;
