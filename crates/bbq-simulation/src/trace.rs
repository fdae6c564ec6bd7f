//! The events of a run, kept only when a person wants to read them.

use std::collections::VecDeque;

/// The most lines that are kept. Every run that ends has fewer.
const LINES_MAX: usize = 50_000;

/// The events of a run, if they are kept.
#[derive(Debug, Default)]
pub struct Trace {
    is_on: bool,
    step: u64,
    lines: VecDeque<String>,
}

impl Trace {
    /// A trace that keeps events if `is_on`.
    #[must_use]
    pub fn new(is_on: bool) -> Trace {
        Trace { is_on, ..Trace::default() }
    }

    /// Whether events are kept.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Sets the step of the events that follow.
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
