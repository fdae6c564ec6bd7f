//! bbq senders (the library, and the program `bbq send`), and senders by HTTP.

mod acknowledged_at_once;
#[path = "../../../bbq-client/tests/support/authority.rs"]
#[expect(dead_code, reason = "the tests of bbq-client use more of it")]
mod authority;
mod bbq_client_at_text_listener;
mod client_full_disk;
mod client_killed;
mod client_server_killed;
mod client_servers;
mod client_stalled;
#[path = "../support/curl.rs"]
mod curl;
mod curl_killed;
mod dialects;
mod dialects_killed;
mod dialects_refused;
mod elasticsearch_bulk;
mod exactly_once;
mod filtered;
mod fluent;
mod gelf;
mod gelf_http;
mod guide;
mod http;
mod http2;
mod http_coding;
mod http_logs;
mod http_numbered;
mod journal_upload;
mod loki_push;
mod opentelemetry;
mod pages;
mod peer_texts;
mod readme;
mod real_clients;
mod send_addresses;
mod send_damaged_spool;
mod send_failures;
mod send_lines;
mod send_waiting;
mod splunk_hec;
#[path = "../support/mod.rs"]
mod support;
mod tls;
#[path = "../support/tls_proxy.rs"]
mod tls_proxy;
mod typed;
