//! When the spool will be full, for people.

use std::time::Duration;

use bbq_server::status::SpoolStatus;

use crate::shown_duration::duration;

/// A shorter time is not told more exactly.
const SOON: Duration = Duration::from_mins(1);

/// Behind the size of the spool: `, full in 3 h at this pace`, or nothing while there is no end in sight.
pub(crate) fn time_left(spool: &SpoolStatus) -> String {
    match spool.full_in_seconds.map(Duration::from_secs) {
        _ if spool.bytes >= spool.bytes_max => ", full".to_owned(),
        Some(left) if left < SOON => ", full in less than a minute at this pace".to_owned(),
        Some(left) => format!(", full in {} at this pace", duration(left)),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_told_as_soon_as_it_can_be_seen() {
        let spool = |bytes, full_in_seconds| SpoolStatus {
            bytes,
            bytes_max: 10,
            full_in_seconds,
            ..SpoolStatus::default()
        };
        assert_eq!(time_left(&spool(9, None)), "");
        assert_eq!(time_left(&spool(9, Some(59))), ", full in less than a minute at this pace");
        assert_eq!(time_left(&spool(9, Some(7260))), ", full in 2 h 1 min at this pace");
        assert_eq!(time_left(&spool(10, Some(7200))), ", full");
    }
}
