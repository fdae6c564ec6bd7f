//! How long a record waits for room, and what interrupts the wait.

use std::time::{Duration, Instant};

use crate::OnFull;

/// How long a record may wait. The clock is read only if it has to wait.
pub(crate) struct WaitLimit<'a> {
    pub(crate) on_full: OnFull,
    pub(crate) deadline: Option<Instant>,
    pub(crate) interrupt: Option<Interrupt<'a>>,
}

/// Calls a function at an interval while a record waits; the function may end the wait.
pub(crate) struct Interrupt<'a> {
    interval: Duration,
    go_on: &'a mut dyn FnMut() -> bool,
    /// When to call the function next. Kept from wait to wait, so that many short waits do not delay the call.
    next: Option<Instant>,
    /// The function has returned `false`.
    pub(crate) stopped: bool,
}

impl<'a> Interrupt<'a> {
    pub(crate) fn new(interval: Duration, go_on: &'a mut dyn FnMut() -> bool) -> Interrupt<'a> {
        Interrupt { interval, go_on, next: None, stopped: false }
    }
}

impl WaitLimit<'_> {
    pub(crate) fn of(on_full: OnFull) -> Self {
        WaitLimit { on_full, deadline: None, interrupt: None }
    }

    /// Calls `wait` with a deadline (`None` is without end), at which it returns `false`. Returns whether to try the record again.
    pub(crate) fn waits(&mut self, mut wait: impl FnMut(Option<Instant>) -> bool) -> bool {
        let OnFull::Block(most) = self.on_full else { return false };
        if let (Some(most), None) = (most, self.deadline) {
            self.deadline = Instant::now().checked_add(most);
        }
        let deadline = self.deadline;
        let Some(interrupt) = &mut self.interrupt else { return wait(deadline) };
        loop {
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                return false;
            }
            let next = *interrupt.next.get_or_insert(now + interrupt.interval);
            let try_again = wait(Some(deadline.map_or(next, |deadline| deadline.min(next))));
            let now = Instant::now();
            if now >= next {
                interrupt.next = Some(now + interrupt.interval);
                if !(interrupt.go_on)() {
                    interrupt.stopped = true;
                    return false;
                }
            }
            if try_again {
                return true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits by pauses shorter than the interval, until the limit ends it. Returns how many.
    #[expect(clippy::disallowed_methods, reason = "the pauses are what is tested")]
    fn waits(limit: &mut WaitLimit<'_>) -> u32 {
        let pause = |end: Option<Instant>| {
            std::thread::sleep(Duration::from_millis(1));
            end.is_none_or(|end| Instant::now() < end)
        };
        (0..5000).take_while(|_| limit.waits(pause)).count() as u32
    }

    #[test]
    fn who_waits_by_pauses_is_asked_too() {
        let mut asked = 0;
        let mut go_on = || {
            asked += 1;
            asked < 3
        };
        let interrupt = Some(Interrupt::new(Duration::from_millis(20), &mut go_on));
        let mut limit = WaitLimit { interrupt, ..WaitLimit::of(OnFull::Block(None)) };
        let times = waits(&mut limit);
        assert!(limit.interrupt.is_some_and(|interrupt| interrupt.stopped), "it waits after {times} pauses");
        assert_eq!(asked, 3);
    }

    #[test]
    fn who_may_go_on_waits_until_the_deadline() {
        let mut go_on = || true;
        let interrupt = Some(Interrupt::new(Duration::from_millis(5), &mut go_on));
        let most = Duration::from_millis(50);
        let mut limit = WaitLimit { interrupt, ..WaitLimit::of(OnFull::Block(Some(most))) };
        let start = Instant::now();
        let times = waits(&mut limit);
        assert!(start.elapsed() >= most && times < 5000, "{times} pauses");
        assert!(limit.interrupt.is_some_and(|interrupt| !interrupt.stopped));
    }
}
