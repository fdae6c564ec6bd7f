//! How long a record waits for room, and who is asked meanwhile.

use std::time::{Duration, Instant};

use crate::OnFull;

/// How long a record may wait. The clock is only read when it has to.
pub(crate) struct Patience<'a> {
    pub(crate) on_full: OnFull,
    pub(crate) deadline: Option<Instant>,
    pub(crate) slice: Option<Slice<'a>>,
}

/// Who waits is asked now and then whether to go on.
pub(crate) struct Slice<'a> {
    pub(crate) length: Duration,
    pub(crate) go_on: &'a mut dyn FnMut() -> bool,
    pub(crate) said_no: bool,
}

impl Patience<'_> {
    pub(crate) fn of(on_full: OnFull) -> Self {
        Patience { on_full, deadline: None, slice: None }
    }

    /// Waits by `wait`, which is `false` at the deadline that it is given (`None` is without end). Whether there is something new.
    pub(crate) fn waits(&mut self, mut wait: impl FnMut(Option<Instant>) -> bool) -> bool {
        let OnFull::Block(most) = self.on_full else { return false };
        if let (Some(most), None) = (most, self.deadline) {
            self.deadline = Instant::now().checked_add(most);
        }
        let deadline = self.deadline;
        let Some(slice) = &mut self.slice else { return wait(deadline) };
        loop {
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                return false;
            }
            let end = now + slice.length;
            if wait(Some(deadline.map_or(end, |deadline| deadline.min(end)))) {
                return true;
            }
            if !(slice.go_on)() {
                slice.said_no = true;
                return false;
            }
        }
    }
}
