//! What a person chose with keys: the table in focus, the places, the order, the filter.

use super::model::{Model, PANES, SINKS};
use super::pane::{Row, Sort};
use super::tables::PAUSED;

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
    /// What a sink is told if the person says yes: what the question says, whatever becomes of the sink meanwhile.
    order: Option<SinkOrder>,
    /// Whether the last frame had a line to ask in.
    has_footer: bool,
    /// What became of the last order, until the next key.
    pub(super) notice: Option<String>,
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
    /// To pause a sink.
    Order,
    Help,
    Faster,
    Slower,
    Type(char),
    Erase,
    Accept,
    Cancel,
}

/// What a sink is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SinkOrder {
    pub(super) name: String,
    /// Otherwise it resumes.
    pub(super) pauses: bool,
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
            order: None,
            has_footer: false,
            notice: None,
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
        self.notice = None;
        if let Some(SinkOrder { name, .. }) = self.order.take() {
            match action {
                Action::Scroll(by) => return self.order = self.other_sink(model, &name, by),
                Action::Cancel => return,
                _ => {}
            }
        }
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
            Action::Order if self.has_footer => self.order = self.other_sink(model, "", 0),
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
            Action::Order | Action::Quit | Action::Interrupt | Action::Suspend | Action::Redraw => {}
        }
    }

    /// What the sink beside the one of this name, or the first, can be told.
    fn other_sink(&self, model: &Model, name: &str, by: isize) -> Option<SinkOrder> {
        let names = self.sinks(model);
        let place = names.iter().position(|row| row.cells[0].text == name).unwrap_or_default();
        let place = place.saturating_add_signed(by).min(names.len().saturating_sub(1));
        let order =
            |row: &&Row| SinkOrder { name: row.cells[0].text.clone(), pauses: row.cells[1].text != PAUSED };
        names.get(place).map(order)
    }

    /// The rows of sinks that are shown.
    fn sinks<'a>(&self, model: &'a Model) -> Vec<&'a Row> {
        model.panes[SINKS].shown(&self.filter, self.sort[SINKS + 1])
    }

    /// What the sink is told that is chosen, if it is still there.
    pub(super) fn order(&self, model: &Model) -> Option<SinkOrder> {
        let order = self.order.as_ref()?;
        self.sinks(model).iter().any(|row| row.cells[0].text == order.name).then(|| order.clone())
    }

    /// A frame has a line to ask in, or not: then nothing is asked, as nobody would see it.
    pub(super) fn set_footer(&mut self, has_footer: bool) {
        self.has_footer = has_footer;
        self.order.take_if(|_| !has_footer);
    }

    /// The same, once the person has said yes.
    pub(super) fn take_order(&mut self, model: &Model) -> Option<SinkOrder> {
        let order = self.order(model);
        self.order = None;
        order
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
