//! Every kind of sink. A new kind is a file beside this one, and a line here.
//!
//! A kind that needs much more to be built has a cargo feature, and a line in each list. The feature `full` has all of them.

#[cfg(feature = "kafka")]
use super::kafka;
use super::kind::Kind;
#[cfg(feature = "nats")]
use super::nats;
#[cfg(feature = "s3")]
use super::objects;
use super::{exec, forward, http, null, otlp, text};

/// The kinds of this build, in the order in which help shows them.
pub static SINK_KINDS: &[&Kind] = &[
    &text::target::FILE,
    &text::target::STDOUT,
    &forward::FORWARD,
    &forward::FORWARD_TLS,
    &forward::FORWARD_UNIX,
    &http::HTTP,
    &http::HTTPS,
    &otlp::HTTP,
    &otlp::HTTPS,
    &otlp::GRPC,
    &otlp::GRPCS,
    &exec::EXEC,
    #[cfg(feature = "kafka")]
    &kafka::KAFKA,
    #[cfg(feature = "nats")]
    &nats::NATS,
    #[cfg(feature = "s3")]
    &objects::S3,
    #[cfg(feature = "s3")]
    &objects::OBJECTS,
    &null::NULL,
];

/// A kind of sink that this build does not have.
pub(super) struct LeftOut {
    /// What precedes the colon of a SPEC.
    pub(super) word: &'static str,
    /// The cargo feature that has the kind.
    pub(super) feature: &'static str,
}

/// The kinds that this build does not have.
pub(super) static LEFT_OUT: &[LeftOut] = &[
    #[cfg(not(feature = "kafka"))]
    LeftOut { word: "kafka", feature: "kafka" },
    #[cfg(not(feature = "nats"))]
    LeftOut { word: "nats", feature: "nats" },
    #[cfg(not(feature = "s3"))]
    LeftOut { word: "s3", feature: "s3" },
    #[cfg(not(feature = "s3"))]
    LeftOut { word: "objects", feature: "s3" },
];
