//! Cells that wait for half a minute, until a sink gives up on a destination that says nothing. All wait at the same time.

use std::any::Any;
use std::sync::LazyLock;

use super::destination::{Fault, Start};
#[cfg(feature = "kafka")]
use super::kafka;
#[cfg(feature = "nats")]
use super::nats;
#[cfg(feature = "s3")]
use super::objects;
use super::{bbq, cell, exec};

const ROWS: &[(&str, Start)] = &[
    ("bbq", bbq::bbq),
    ("exec", exec::exec),
    #[cfg(feature = "kafka")]
    ("kafka", kafka::kafka),
    #[cfg(feature = "nats")]
    ("nats", nats::nats),
    #[cfg(feature = "s3")]
    ("s3", objects::s3),
];

/// Rows, and why those have failed that have.
type Outcomes = Vec<(&'static str, Option<String>)>;

/// The first test that wants one runs all.
static OUTCOMES: LazyLock<Outcomes> = LazyLock::new(|| {
    std::thread::scope(|scope| {
        let each = ROWS.iter().map(|(row, start)| (*row, scope.spawn(|| cell::run(*start, Fault::Hanging))));
        let each: Vec<_> = each.collect();
        each.into_iter().map(|(row, thread)| (row, thread.join().err().map(|panic| text(&*panic)))).collect()
    })
});

/// Panics if the cell has failed.
pub(super) fn hanging(row: &str) {
    let outcome = OUTCOMES.iter().find(|(name, _)| *name == row);
    let (_, failure) = outcome.expect("the row is one of ROWS");
    if let Some(why) = failure {
        panic!("{why}");
    }
}

fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned()
}
