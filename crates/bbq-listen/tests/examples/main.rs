//! The examples, each as a process of its own.

mod acceptance;
mod axum;
mod axum_server;
mod dns_cache;
mod example;
mod frozen;
mod frozen_task;
mod greeter;
mod hand_over;
mod http_ok;
mod hyper;
mod late;
mod quic;
mod replaced;
mod speed;
mod std_and_mio;
mod stream_proxy;
mod taken;
mod tls;
mod tonic;
mod udp_echo;
mod upstream;
