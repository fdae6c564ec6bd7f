//! Options with a few possible values. C passes them as numbers: an `enum` parameter would accept any number all the same.

use std::time::Duration;

use bbq_client::AckLevel;

use crate::failure::Failure;

/// What an acknowledgement means.
#[repr(i32)]
pub enum Ack {
    /// The message is on the server's disk.
    Durable = 0,
    /// The server has it in memory.
    Received = 1,
    /// There is no acknowledgement: a message counts as acknowledged when it is written to the connection.
    None = 2,
    /// The message is on the server's disk, and on those of the servers that it passes messages on to (its sinks `bbq:`).
    Replicated = 3,
}

/// Which servers get a message when several are named.
#[repr(i32)]
pub enum Delivery {
    /// The first server that answers. The sender returns to the server named first when that is reachable again.
    Any = 0,
    /// Every server, each with its own progress.
    All = 1,
}

/// What happens to a message for which there is no room.
#[repr(i32)]
pub enum OnFull {
    /// bbq_send waits for room, at most for its time-out. Then the message is dropped and counted.
    Block = 0,
    /// The message is dropped and counted.
    DropNewest = 1,
    /// The oldest messages that are not being sent are dropped and counted; if there are none, the new message is.
    DropOldest = 2,
}

/// Whether batches are compressed with LZ4.
#[repr(i32)]
pub enum Compress {
    /// Never.
    Off = 0,
    /// Always; a batch that would grow stays as it is.
    On = 1,
    /// Only to servers on other machines, and only while batches shrink by a fifth or more.
    Auto = 2,
}

pub(crate) fn ack(number: i32) -> Result<AckLevel, Failure> {
    choose(
        "ack",
        number,
        &[
            (Ack::Durable as i32, AckLevel::Durable),
            (Ack::Received as i32, AckLevel::Received),
            (Ack::None as i32, AckLevel::None),
            (Ack::Replicated as i32, AckLevel::Replicated),
        ],
    )
}

pub(crate) fn delivery(number: i32) -> Result<bbq_client::Delivery, Failure> {
    choose(
        "delivery",
        number,
        &[
            (Delivery::Any as i32, bbq_client::Delivery::Any),
            (Delivery::All as i32, bbq_client::Delivery::All),
        ],
    )
}

/// A negative time-out means no time-out.
pub(crate) fn on_full(number: i32, timeout_ms: i64) -> Result<bbq_client::OnFull, Failure> {
    let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
    choose(
        "on_full",
        number,
        &[
            (OnFull::Block as i32, bbq_client::OnFull::Block(timeout)),
            (OnFull::DropNewest as i32, bbq_client::OnFull::DropNewest),
            (OnFull::DropOldest as i32, bbq_client::OnFull::DropOldest),
        ],
    )
}

pub(crate) fn compress(number: i32) -> Result<bbq_client::Compress, Failure> {
    choose(
        "compress",
        number,
        &[
            (Compress::Off as i32, bbq_client::Compress::Off),
            (Compress::On as i32, bbq_client::Compress::On),
            (Compress::Auto as i32, bbq_client::Compress::Auto),
        ],
    )
}

fn choose<T: Copy>(option: &str, number: i32, choices: &[(i32, T)]) -> Result<T, Failure> {
    let found = choices.iter().find(|(choice, _)| *choice == number);
    found
        .map(|(_, value)| *value)
        .ok_or_else(|| Failure::argument(format!("{option} is {number}; use one of the constants in bbq.h")))
}
