//! Cells that wait for half a minute and longer, until a sink gives up on a destination. All wait at the same time.

use std::any::Any;
use std::sync::LazyLock;

#[cfg(all(feature = "azure", feature = "gcs"))]
use super::clouds;
use super::destination::{Fault, Start};
#[cfg(feature = "kafka")]
use super::kafka;
#[cfg(feature = "nats")]
use super::nats;
#[cfg(feature = "s3")]
use super::objects;
use super::{bbq, cell, exec};

/// Row, column, and how the row starts.
type Place = (&'static str, Fault, Start);

const CELLS: &[Place] = &[
    ("bbq", Fault::Hanging, bbq::bbq),
    ("exec", Fault::Hanging, exec::exec),
    #[cfg(feature = "kafka")]
    ("kafka", Fault::Hanging, kafka::kafka),
    #[cfg(feature = "kafka")]
    ("kafka", Fault::Resetting, kafka::kafka),
    #[cfg(feature = "kafka")]
    ("kafka", Fault::Away, kafka::kafka),
    #[cfg(feature = "nats")]
    ("nats", Fault::Hanging, nats::nats),
    #[cfg(feature = "s3")]
    ("s3", Fault::Hanging, objects::s3),
    #[cfg(feature = "s3")]
    ("s3", Fault::Narrow, objects::s3),
    #[cfg(all(feature = "azure", feature = "gcs"))]
    ("gs", Fault::Hanging, clouds::gs),
    #[cfg(all(feature = "azure", feature = "gcs"))]
    ("gs", Fault::Narrow, clouds::gs),
    #[cfg(all(feature = "azure", feature = "gcs"))]
    ("az", Fault::Hanging, clouds::az),
    #[cfg(all(feature = "azure", feature = "gcs"))]
    ("az", Fault::Narrow, clouds::az),
];

/// Why the cells have failed that have, in the order of [`CELLS`]. The first test that wants one runs all.
static OUTCOMES: LazyLock<Vec<Option<String>>> = LazyLock::new(|| {
    std::thread::scope(|scope| {
        let cells = CELLS.iter().map(|(_, fault, start)| scope.spawn(|| cell::run(*start, *fault)));
        let cells: Vec<_> = cells.collect();
        cells.into_iter().map(|cell| cell.join().err().map(|panic| text(&*panic))).collect()
    })
});

/// Panics if the cell has failed.
pub(super) fn cell_of(row: &str, column: Fault) {
    let place = CELLS.iter().position(|(name, fault, _)| (*name, *fault) == (row, column));
    if let Some(why) = &OUTCOMES[place.expect("the cell is one of CELLS")] {
        panic!("{why}");
    }
}

fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned()
}
