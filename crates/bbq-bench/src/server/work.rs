//! A handler's work: so much processor time, however busy the machine is.

use std::hint::black_box;
use std::time::Duration;

use crate::cpu;

/// Between two looks at the clock, which is a system call.
const TURNS: u64 = 2_000;

/// Spends it.
pub(super) fn spend(work: Duration) {
    if work.is_zero() {
        return;
    }
    let end = cpu::of_this_thread() + work;
    while cpu::of_this_thread() < end {
        black_box((0..TURNS).fold(0_u64, |sum, turn| sum.rotate_left(5) ^ black_box(turn)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_processor_time_that_is_spent() {
        let before = cpu::of_this_thread();
        spend(Duration::from_millis(3));
        assert!(cpu::of_this_thread() - before >= Duration::from_millis(3));
    }
}
