//! How a server starts, is reloaded and upgraded, and ends.

mod activation;
#[expect(dead_code, reason = "a part of it is used here")]
#[path = "../access/authority.rs"]
mod authority;
#[expect(dead_code, reason = "a part of it is used here")]
#[path = "../access/client.rs"]
mod client;
mod configuration;
mod container;
mod data_in_place;
mod drain;
mod drain_timeout;
mod early_signals;
mod environment;
mod explain;
mod half_reload;
mod init;
mod late_requests;
mod manual;
mod no_connection_lost;
mod refused_threads;
mod reload;
mod stop;
mod stop_while_settling;
mod stop_with_slow_syncs;
mod stuck_sink;
#[path = "../support/mod.rs"]
mod support;
mod upgrade;
mod waits_for_room;
