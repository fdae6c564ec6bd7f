//! How long a record waits for room, and who is asked meanwhile.

use std::time::{Duration, Instant};

use crate::OnFull;

/// How long a record may wait. The clock is only read when it has to.
pub(crate) struct WaitLimit<'a> {
    pub(crate) on_full: OnFull,
    pub(crate) deadline: Option<Instant>,
    pub(crate) interrupt: Option<Interrupt<'a>>,
}

/// Who waits is asked now and then whether to go on.
pub(crate) struct Interrupt<'a> {
    pub(crate) interval: Duration,
    pub(crate) go_on: &'a mut dyn FnMut() -> bool,
    /// When to ask next, once a wait has begun: news that is not enough must not put it off.
    pub(crate) next: Option<Instant>,
    pub(crate) said_no: bool,
}

impl<'a> Interrupt<'a> {
    pub(crate) fn new(interval: Duration, go_on: &'a mut dyn FnMut() -> bool) -> Interrupt<'a> {
        Interrupt { interval, go_on, next: None, said_no: false }
    }
}

impl WaitLimit<'_> {
    pub(crate) fn of(on_full: OnFull) -> Self {
        WaitLimit { on_full, deadline: None, interrupt: None }
    }

    /// Waits by `wait`, which is `false` at the deadline that it is given (`None` is without end). Whether there is something new.
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
            let has_news = wait(Some(deadline.map_or(next, |deadline| deadline.min(next))));
            let now = Instant::now();
            if now >= next {
                interrupt.next = Some(now + interrupt.interval);
                if !(interrupt.go_on)() {
                    interrupt.said_no = true;
                    return false;
                }
            }
            if has_news {
                return true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits by short pauses, each of which ends before an interval does, until it is told to stop; returns how often.
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
        assert!(limit.interrupt.is_some_and(|interrupt| interrupt.said_no), "it waits after {times} pauses");
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
        assert!(limit.interrupt.is_some_and(|interrupt| !interrupt.said_no));
    }
}
