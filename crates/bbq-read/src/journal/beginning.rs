//! What a reader of a journal knows at its first start: where the journal begins for it, and a number of its own.

use rustix::time::{ClockId, clock_gettime};

use super::catalog::Contents;
use super::cursor::Place;
use super::rules::Start;
use crate::error::ReadError;

/// The id of this boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// What the first start of a reader remembers.
pub(super) fn first_contents(start: Start) -> Result<Contents, ReadError> {
    let salt = random_salt()?;
    let (floor_us, place) = match start {
        Start::Beginning => (0, Place::default()),
        Start::End => {
            let now_us = bbq_spec::unix_ns() / 1000;
            (now_us, Place::at_time(now_us))
        }
        Start::Boot => {
            let place = boot_place();
            (place.realtime_us.unwrap_or(0), place)
        }
    };
    Ok(Contents { salt, boot_id: boot_id(), floor_us, bound_us: 0, place, ids: Vec::new() })
}

/// The id of this boot; 0 if the system does not tell.
pub(super) fn boot_id() -> u128 {
    let id = std::fs::read_to_string(BOOT_ID).unwrap_or_default().replace('-', "");
    u128::from_str_radix(id.trim(), 16).unwrap_or(0)
}

/// The beginning of this boot.
fn boot_place() -> Place {
    let up = clock_gettime(ClockId::Boottime);
    let up_us = u64::try_from(up.tv_sec).unwrap_or(0).saturating_mul(1_000_000);
    let began_us = (bbq_spec::unix_ns() / 1000).saturating_sub(up_us.saturating_add(1_000_000));
    Place { seqnum: None, boot: Some((boot_id(), 0)), realtime_us: Some(began_us) }
}

/// What makes the streams of this reader those of no other one.
fn random_salt() -> Result<u128, ReadError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| ReadError::Random(error.to_string()))?;
    Ok(u128::from_be_bytes(bytes))
}
