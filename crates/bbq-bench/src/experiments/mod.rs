//! What is measured: one file for each experiment.

pub(crate) mod burst;
pub(crate) mod client;
pub(crate) mod dns;
pub(crate) mod duplicate;
pub(crate) mod durable;
pub(crate) mod greeter;
pub(crate) mod http;
pub(crate) mod idle;
pub(crate) mod listen;
pub(crate) mod marks;
pub(crate) mod otlp;
pub(crate) mod scale;
pub(crate) mod servers;
pub(crate) mod shapes;
pub(crate) mod skew;
pub(crate) mod stall;
pub(crate) mod stream;
mod streaming;
mod to_file;
pub(crate) mod udp;
