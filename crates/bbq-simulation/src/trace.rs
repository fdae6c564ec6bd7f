//! What happened, for people: kept only when a run is repeated to be read.

use std::collections::VecDeque;

/// Lines that are kept: more than a run has, but for one that does not end.
const LINES_MAX: usize = 50_000;

/// The events of a run, if they are wanted.
#[derive(Debug, Default)]
pub struct Trace {
    is_on: bool,
    step: u64,
    lines: VecDeque<String>,
}

impl Trace {
    /// A trace that is kept, or none.
    #[must_use]
    pub fn new(is_on: bool) -> Trace {
        Trace { is_on, ..Trace::default() }
    }

    /// Whether anybody will read it.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// The events that follow belong to this step.
    pub fn at(&mut self, step: u64) {
        self.step = step;
    }

    /// Adds an event. Use [`crate::note!`], which builds the text only if it is wanted.
    pub fn push(&mut self, text: &str) {
        if self.lines.len() == LINES_MAX {
            self.lines.pop_front();
        }
        self.lines.push_back(format!("{:>6}  {text}", self.step));
    }

    /// The last events.
    #[must_use]
    pub fn last(&self, lines: usize) -> Vec<String> {
        self.lines.iter().skip(self.lines.len().saturating_sub(lines)).cloned().collect()
    }
}

/// Adds an event to a [`Trace`].
#[macro_export]
macro_rules! note {
    ($trace:expr, $($text:tt)*) => {
        if $trace.is_on() {
            let text = format!($($text)*);
            $trace.push(&text);
        }
    };
}
