//! What a person chose with keys: the table in focus, the places, the order, the filter.

use super::model::{Model, PANES};
use super::pane::Sort;

/// Tab goes around the findings and the tables.
pub(super) const PARTS: usize = PANES + 1;
/// The part of the findings; table `n` is part `n + 1`.
pub(super) const FINDINGS: usize = 0;
/// Seconds between two requests, by `+` and `-`.
const INTERVALS: [f64; 9] = [0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0];
/// Names are shorter.
const FILTER_CHARACTERS_MAX: usize = 64;

pub(super) struct Screen {
    /// The part in focus.
    pub(super) focus: usize,
    /// The first row that is shown, of each part.
    pub(super) first: [usize; PARTS],
    /// The first column that is shown behind the name, of each part.
    pub(super) first_column: [usize; PARTS],
    pub(super) sort: [Option<Sort>; PARTS],
    pub(super) filter: String,
    pub(super) edits_filter: bool,
    pub(super) is_paused: bool,
    pub(super) shows_help: bool,
    pub(super) interval_seconds: f64,
    /// Why there is no answer, and for how long.
    pub(super) away: Option<String>,
    pub(super) has_colours: bool,
    /// Whether there are keys to name.
    pub(super) has_keys: bool,
}

/// What a key means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Quit,
    Interrupt,
    Suspend,
    Redraw,
    /// Rows down, or up if it is negative.
    Scroll(isize),
    /// Pages down, or up.
    Page(isize),
    Columns(isize),
    First,
    Last,
    /// Parts forward, or back.
    Focus(isize),
    Sort,
    Invert,
    Filter,
    Pause,
    Help,
    Faster,
    Slower,
    Type(char),
    Erase,
    Accept,
    Cancel,
}

impl Screen {
    pub(super) fn new(interval_seconds: f64, has_colours: bool, has_keys: bool) -> Screen {
        Screen {
            focus: FINDINGS + 1,
            first: [0; PARTS],
            first_column: [0; PARTS],
            sort: [None; PARTS],
            filter: String::new(),
            edits_filter: false,
            is_paused: false,
            shows_help: false,
            interval_seconds,
            away: None,
            has_colours,
            has_keys,
        }
    }

    /// Does what a key means, but for what concerns the terminal. `rows` is how many rows of each part the last frame had room for.
    pub(super) fn act(&mut self, action: Action, model: &Model, rows: &[usize; PARTS]) {
        let focus = self.focus;
        let page = isize::try_from(rows[focus].max(1)).unwrap_or(isize::MAX);
        match action {
            Action::Scroll(by) => self.first[focus] = self.first[focus].saturating_add_signed(by),
            Action::Page(by) => {
                self.first[focus] = self.first[focus].saturating_add_signed(by.saturating_mul(page))
            }
            Action::First => self.first[focus] = 0,
            // The frame shows the last rows then.
            Action::Last => self.first[focus] = usize::MAX,
            Action::Columns(by) => {
                let most = columns(model, focus).saturating_sub(2);
                self.first_column[focus] = self.first_column[focus].saturating_add_signed(by).min(most);
            }
            Action::Focus(by) => self.focus = self.focus.wrapping_add_signed(by).wrapping_add(PARTS) % PARTS,
            Action::Sort => self.sort_by_next(model),
            Action::Invert => {
                if let Some(sort) = &mut self.sort[focus] {
                    sort.is_descending = !sort.is_descending;
                }
            }
            Action::Filter => self.edits_filter = true,
            Action::Pause => self.is_paused = !self.is_paused,
            Action::Help => self.shows_help = !self.shows_help,
            Action::Faster => self.interval_seconds = faster(self.interval_seconds),
            Action::Slower => self.interval_seconds = slower(self.interval_seconds),
            Action::Type(character) => {
                if self.filter.chars().count() < FILTER_CHARACTERS_MAX {
                    self.filter.push(character);
                }
            }
            Action::Erase => drop(self.filter.pop()),
            Action::Accept => self.edits_filter = false,
            Action::Cancel => {
                if !std::mem::take(&mut self.shows_help) {
                    self.edits_filter = false;
                    self.filter.clear();
                }
            }
            Action::Quit | Action::Interrupt | Action::Suspend | Action::Redraw => {}
        }
    }

    /// As configured, then by each column: numbers from the largest, text from its beginning.
    fn sort_by_next(&mut self, model: &Model) {
        let focus = self.focus;
        if focus == FINDINGS {
            return;
        }
        let columns = model.panes[focus - 1].columns;
        let next = self.sort[focus].map_or(0, |sort| sort.column + 1);
        self.sort[focus] =
            columns.get(next).map(|column| Sort { column: next, is_descending: !column.is_text });
    }
}

fn columns(model: &Model, part: usize) -> usize {
    if part == FINDINGS { 0 } else { model.panes[part - 1].columns.len() }
}

fn faster(seconds: f64) -> f64 {
    INTERVALS.into_iter().rev().find(|interval| *interval < seconds).unwrap_or(seconds)
}

fn slower(seconds: f64) -> f64 {
    INTERVALS.into_iter().find(|interval| *interval > seconds).unwrap_or(seconds)
}
