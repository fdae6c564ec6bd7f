//! A table in a number of lines: its head, and the rows from the first that is shown.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use bbq_server::status::Level;

use super::look::{Look, mark};
use super::pane::{Pane, Row, Sort};
use super::text::{cut_middle, fit, safe, width};

/// In front of a row: its mark.
const MARGIN: usize = 2;
/// Between two columns.
const GAP: usize = 2;
/// The name of a row has at least this, even if other columns do not fit then: the SPEC of a listener without a name, and a number.
const NAME_MIN: usize = 30;
/// A text in the last column that is cut has at least this.
const TEXT_MIN: usize = 8;

/// How a table is shown.
pub(super) struct Shown<'a> {
    pub(super) rows: Vec<&'a Row>,
    pub(super) first: usize,
    pub(super) first_column: usize,
    pub(super) sort: Option<Sort>,
    pub(super) is_in_focus: bool,
}

/// A column that is shown, and its width.
struct Place {
    column: usize,
    width: usize,
}

/// At most `height` lines.
pub(super) fn lines(
    pane: &Pane,
    shown: &Shown<'_>,
    height: usize,
    columns: usize,
    look: &Look,
) -> Vec<Line<'static>> {
    if height == 0 {
        return Vec::new();
    }
    let places = places(pane, shown, columns.saturating_sub(MARGIN));
    let mut rows = shown.rows.clone();
    if shown.sort.is_none() && rows.len() > height - 1 {
        // What is wrong comes first if there is not room for all.
        rows.sort_by_key(|row| row.level != Some(Level::Problem));
    }
    let rows = rows.into_iter().skip(shown.first).take(height - 1);
    let head = head(pane, shown, &places, height - 1, columns, look);
    let row = |row: &Row| {
        let style = look.level(row.level);
        let mut spans = vec![Span::styled(mark(row.level), style)];
        for (index, place) in places.iter().enumerate() {
            let mut text = safe(&row.cells[place.column].text);
            if index == 0 {
                text = cut_middle(&text, place.width);
            }
            spans.push(Span::styled(
                in_column(&text, pane, place, index),
                if index == 0 { style } else { Style::new() },
            ));
        }
        Line::from(spans)
    };
    std::iter::once(head).chain(rows.map(row)).collect()
}

fn head(
    pane: &Pane,
    shown: &Shown<'_>,
    places: &[Place],
    rows: usize,
    columns: usize,
    look: &Look,
) -> Line<'static> {
    let mut text = if shown.is_in_focus { "* ".to_owned() } else { "  ".to_owned() };
    for (index, place) in places.iter().enumerate() {
        let label = label(pane, place.column, shown.sort);
        text += &in_column(&label, pane, place, index);
    }
    let mut end = String::new();
    let all = shown.rows.len();
    if all > rows {
        let last = (shown.first + rows).min(all);
        end = format!(" {}-{last} of {all} ", (shown.first + 1).min(last));
    }
    let last = places.last().map_or(0, |place| place.column);
    if last + 1 < pane.columns.len() || shown.first_column > 0 {
        let left = if shown.first_column > 0 { "<" } else { " " };
        let right = if last + 1 < pane.columns.len() { ">" } else { " " };
        end += &format!(" {left}{right}");
    }
    if width(&end) < columns {
        text = fit(&text, columns - width(&end), true) + &end;
    }
    Line::styled(fit(&text, columns, true), look.head(shown.is_in_focus))
}

/// The label of a column, with the order if it is sorted by it.
fn label(pane: &Pane, column: usize, sort: Option<Sort>) -> String {
    let label = pane.columns[column].label;
    match sort.filter(|sort| sort.column == column) {
        Some(sort) => format!("{label}{}", if sort.is_descending { 'v' } else { '^' }),
        None => label.to_owned(),
    }
}

fn in_column(text: &str, pane: &Pane, place: &Place, index: usize) -> String {
    let gap = if index == 0 { 0 } else { GAP };
    " ".repeat(gap) + &fit(text, place.width, pane.columns[place.column].is_text)
}

/// The columns that fit. The name gives way first, unless it is that of a row with a problem, beside which the next column fits; a text
/// at the end may be cut.
fn places(pane: &Pane, shown: &Shown<'_>, columns: usize) -> Vec<Place> {
    let natural = |column: usize| {
        let cells = shown.rows.iter().map(|row| width(&safe(&row.cells[column].text)));
        cells.max().unwrap_or(0).max(width(&label(pane, column, shown.sort)))
    };
    let others: Vec<Place> = (1..pane.columns.len())
        .skip(shown.first_column)
        .map(|column| Place { column, width: natural(column) })
        .collect();
    let name = natural(0);
    let failing = shown.rows.iter().filter(|row| row.level == Some(Level::Problem));
    let failing = failing.map(|row| width(&safe(&row.cells[0].text))).max().unwrap_or(0);
    let next = others.first().map_or(0, |place| GAP + place.width);
    let whole = failing.min(columns.saturating_sub(next));
    let all: usize = others.iter().map(|place| GAP + place.width).sum();
    let name = columns.saturating_sub(all).clamp(name.min(NAME_MIN.max(whole)), name).min(columns);
    let mut left = columns - name;
    let mut places = vec![Place { column: 0, width: name }];
    for mut place in others {
        let room = left.saturating_sub(GAP);
        if place.width > room {
            if pane.columns[place.column].is_text && room >= TEXT_MIN {
                place.width = room;
                places.push(place);
            }
            break;
        }
        left = room - place.width;
        places.push(place);
    }
    places
}

#[cfg(test)]
mod tests {
    use super::super::pane::{Cell, Column, number, text};
    use super::*;

    const COLUMNS: &[Column] = &[text("NAME"), number("RATE"), number("DELIVERED"), text("STATE")];

    fn pane() -> Pane {
        let row = |name: &str, level: Option<Level>| Row {
            cells: vec![Cell::text(name), Cell::text("1/s"), Cell::text("12,345"), Cell::text("writing")],
            level,
        };
        let rows = vec![row("first", None), row("second", None), row("third", Some(Level::Problem))];
        Pane { columns: COLUMNS, rows }
    }

    fn drawn(first_column: usize, height: usize, columns: usize) -> Vec<String> {
        let pane = pane();
        let rows = pane.shown("", None);
        let shown = Shown { rows, first: 0, first_column, sort: None, is_in_focus: true };
        let lines = lines(&pane, &shown, height, columns, &Look::new(false));
        lines.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_row_with_a_problem_comes_first_if_there_is_not_room_for_all() {
        let few = drawn(0, 3, 80);
        assert!(few[0].trim_end().ends_with("1-2 of 3"), "{few:?}");
        assert!(few[1].starts_with("! third") && few[2].starts_with("  first"), "{few:?}");
        let all = drawn(0, 4, 80);
        assert!(all[1].starts_with("  first") && all[3].starts_with("! third"), "{all:?}");
    }

    #[test]
    fn the_name_of_a_row_with_a_problem_and_the_column_beside_it_are_whole() {
        let name = "http://search.logs.example:9200/a/path/that/is/long";
        let row = |level| Row {
            cells: vec![
                Cell::text(name),
                Cell::text("cannot deliver"),
                Cell::text("12,345"),
                Cell::text("why"),
            ],
            level,
        };
        let drawn = |level| {
            let pane = Pane { columns: COLUMNS, rows: vec![row(level)] };
            let shown = Shown {
                rows: pane.shown("", None),
                first: 0,
                first_column: 0,
                sort: None,
                is_in_focus: false,
            };
            lines(&pane, &shown, 2, 72, &Look::new(false))[1].to_string()
        };
        let failing = drawn(Some(Level::Problem));
        assert!(failing.contains(name) && failing.contains("cannot deliver"), "{failing}");
        let well = drawn(None);
        assert!(!well.contains(name) && well.contains("12,345"), "{well}");
    }

    #[test]
    fn a_head_says_on_which_side_there_are_more_columns() {
        assert!(!drawn(0, 4, 80)[0].contains(['<', '>']));
        assert!(drawn(0, 4, 24)[0].ends_with(" >"));
        assert!(drawn(1, 4, 80)[0].ends_with("< "));
        let both = &drawn(0, 3, 28)[0];
        assert!(both.contains("1-2 of 3") && both.ends_with(" >"), "{both}");
    }
}
