//! Options that are one of a few. C passes them as numbers, as C++ and C would let any number through.

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
    /// Nothing: a message counts as acknowledged when it is written to the connection.
    None = 2,
}

/// Who gets a message when several servers are named.
#[repr(i32)]
pub enum Delivery {
    /// The first server that answers; back to the one named first when it is there again.
    Any = 0,
    /// Every server, each with its own progress.
    All = 1,
}

/// What becomes of a message for which there is no room.
#[repr(i32)]
pub enum OnFull {
    /// bbq_send waits for room, at most as long as its time-out; then the message is dropped and counted.
    Block = 0,
    /// The message is dropped and counted.
    DropNewest = 1,
    /// The oldest messages that are not on their way are dropped and counted; where there are none, the newest.
    DropOldest = 2,
}

/// Whether batches are compressed with LZ4.
#[repr(i32)]
pub enum Compress {
    /// Never.
    Off = 0,
    /// Always; a batch that would grow stays as it is.
    On = 1,
    /// Where it pays: to servers on other machines, while batches shrink.
    Auto = 2,
}

pub(crate) fn ack(number: i32) -> Result<AckLevel, Failure> {
    match number {
        n if n == Ack::Durable as i32 => Ok(AckLevel::Durable),
        n if n == Ack::Received as i32 => Ok(AckLevel::Received),
        n if n == Ack::None as i32 => Ok(AckLevel::None),
        n => Err(unknown("ack", n)),
    }
}

pub(crate) fn delivery(number: i32) -> Result<bbq_client::Delivery, Failure> {
    match number {
        n if n == Delivery::Any as i32 => Ok(bbq_client::Delivery::Any),
        n if n == Delivery::All as i32 => Ok(bbq_client::Delivery::All),
        n => Err(unknown("delivery", n)),
    }
}

/// A negative time-out is none.
pub(crate) fn on_full(number: i32, timeout_ms: i64) -> Result<bbq_client::OnFull, Failure> {
    match number {
        n if n == OnFull::Block as i32 => {
            Ok(bbq_client::OnFull::Block(u64::try_from(timeout_ms).ok().map(Duration::from_millis)))
        }
        n if n == OnFull::DropNewest as i32 => Ok(bbq_client::OnFull::DropNewest),
        n if n == OnFull::DropOldest as i32 => Ok(bbq_client::OnFull::DropOldest),
        n => Err(unknown("on_full", n)),
    }
}

pub(crate) fn compress(number: i32) -> Result<bbq_client::Compress, Failure> {
    match number {
        n if n == Compress::Off as i32 => Ok(bbq_client::Compress::Off),
        n if n == Compress::On as i32 => Ok(bbq_client::Compress::On),
        n if n == Compress::Auto as i32 => Ok(bbq_client::Compress::Auto),
        n => Err(unknown("compress", n)),
    }
}

fn unknown(option: &str, number: i32) -> Failure {
    Failure::argument(format!("{option} is {number}; use one of the constants in bbq.h"))
}
