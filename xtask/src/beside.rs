//! Jobs that run beside each other, as most of them wait most of their time. The output of each is shown whole when it ends.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

/// What is kept of the output of one job; the rest is not shown. Tests that pass print a line each.
const SHOWN_MAX: usize = 64 << 20;

/// One job. It says how it ended.
pub(crate) struct Job<T> {
    pub(crate) name: String,
    pub(crate) run: Box<dyn FnOnce(&mut Shown) -> T + Send>,
}

/// The output of a job so far.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    bytes: Vec<u8>,
}

impl Shown {
    pub(crate) fn line(&mut self, line: &[u8]) {
        if self.bytes.len() + line.len() <= SHOWN_MAX {
            self.bytes.extend_from_slice(line);
        }
    }
}

/// A job that has ended.
#[derive(Debug)]
pub(crate) struct Ended<T> {
    pub(crate) name: String,
    pub(crate) seconds: u64,
    pub(crate) value: T,
}

/// Runs all jobs in their order, so many at a time.
pub(crate) fn run<T: Send>(jobs: Vec<Job<T>>, at_once: usize) -> Vec<Ended<T>> {
    let waiting = Mutex::new(jobs.into_iter());
    let ended = Mutex::new(Vec::new());
    let work = || {
        loop {
            let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(Job { name, run }) = next else { break };
            let (begin, mut shown) = (Instant::now(), Shown::default());
            eprintln!("xtask: begins: {name}");
            let value = run(&mut shown);
            let seconds = begin.elapsed().as_secs();
            let mut ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
            // Under the lock, so that no two are shown at once. A closed terminal fails no test.
            let _closed = io::stderr().write_all(&shown.bytes);
            ended.push(Ended { name, seconds, value });
        }
    };
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(work);
        }
    });
    ended.into_inner().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::sync_channel;

    use super::*;

    fn job<T>(name: &str, run: impl FnOnce(&mut Shown) -> T + Send + 'static) -> Job<T> {
        Job { name: name.to_owned(), run: Box::new(run) }
    }

    #[test]
    fn two_run_beside_each_other_and_each_says_how_it_ended() {
        let (here, there) = (sync_channel(0), sync_channel(0));
        let first = job("first", move |_| there.0.send(()).is_ok() && here.1.recv().is_ok());
        let second = job("second", move |_| there.1.recv().is_ok() && here.0.send(()).is_ok());
        let mut ended = run(vec![first, second, job("third", |_| false)], 2);
        ended.sort_by(|one, other| one.name.cmp(&other.name));
        let ended: Vec<_> = ended.iter().map(|ended| (ended.name.as_str(), ended.value)).collect();
        assert_eq!(ended, [("first", true), ("second", true), ("third", false)]);
    }

    #[test]
    fn one_at_a_time_runs_them_in_their_order() {
        let order = Arc::new(Mutex::new(Vec::new()));
        let one = |name: &'static str| {
            let order = Arc::clone(&order);
            job(name, move |_| order.lock().unwrap().push(name))
        };
        run(vec![one("a"), one("b"), one("c")], 1);
        assert_eq!(*order.lock().unwrap(), ["a", "b", "c"]);
    }

    #[test]
    fn an_output_is_kept_up_to_its_bound() {
        let mut shown = Shown::default();
        shown.line(&vec![b'a'; SHOWN_MAX - 1]);
        shown.line(b"ab");
        shown.line(b"b");
        assert_eq!(shown.bytes.len(), SHOWN_MAX);
        assert_eq!(shown.bytes.last(), Some(&b'b'));
    }
}
