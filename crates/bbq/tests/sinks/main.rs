//! Sinks, and the spool that they read.

#[path = "../access/authority.rs"]
#[expect(dead_code, reason = "what listeners are tested with, too")]
mod authority;
mod backlog;
#[cfg(all(feature = "azure", feature = "gcs"))]
mod cloud_server;
#[cfg(all(feature = "azure", feature = "gcs"))]
mod clouds;
#[path = "../support/curl.rs"]
#[expect(dead_code, reason = "what other tests look at, too")]
mod curl;
mod damaged_spool;
mod edge_page;
#[cfg(all(feature = "kafka", feature = "nats"))]
mod examples;
mod exec;
mod exec_processes;
mod failed_lane;
mod failed_sync;
mod faults;
mod file_rotation;
mod forward;
mod forward_addresses;
mod forward_circle;
mod forward_held;
mod forward_late;
mod forward_servers;
mod forward_tls;
mod grpc_server;
#[cfg(all(feature = "kafka", feature = "nats", feature = "s3"))]
mod hostile;
mod http;
mod http_names;
mod http_progress;
mod http_proxy;
mod http_refusals;
mod http_responses;
mod http_server;
mod https;
#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "kafka")]
mod kafka_broker;
#[cfg(feature = "kafka")]
mod kafka_cluster;
mod last_number;
#[cfg(all(feature = "kafka", feature = "nats"))]
mod limits_too_small;
mod logrotate;
mod lost_log;
mod many_groups;
mod names;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "nats")]
mod nats_client;
#[cfg(feature = "nats")]
mod nats_cluster;
#[cfg(feature = "nats")]
mod nats_pipeline;
#[cfg(feature = "nats")]
mod nats_server;
mod new_sink;
mod nonblocking_output;
#[cfg(feature = "s3")]
mod objects;
mod orders;
mod otlp;
mod otlp_responses;
mod parsed;
#[cfg(all(feature = "kafka", feature = "nats"))]
mod permissions;
mod presets;
mod read_error;
mod receivers;
mod replicated;
mod restored;
mod rotation_killed;
mod rules;
#[cfg(feature = "nats")]
mod rules_killed;
#[cfg(feature = "s3")]
mod s3;
#[cfg(feature = "s3")]
mod s3_server;
#[cfg(any(feature = "kafka", feature = "nats", feature = "s3"))]
mod senders;
mod spool_tools;
mod status_addresses;
#[path = "../support/mod.rs"]
mod support;
mod syslog_shapes;
#[cfg(all(feature = "kafka", feature = "nats"))]
mod templates;
mod two_sinks;
mod unwritten;
mod victoria_logs;
mod whole_groups;
