//! A frame, from the model and what the person chose: no terminal, no clock.

use bbq_server::status::Level;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Widget as _};

use super::layout::{Heights, Wanted, heights};
use super::look::Look;
use super::model::{Balance, Model, PANES, State, Term};
use super::number::{count, exact};
use super::pane_view::{self, Shown};
use super::screen::{FINDINGS, PARTS, Screen, SinkOrder};
use super::text::{cut, cut_middle, fit, safe, width};
use super::{findings_view, keys};

/// The ledger, what comes and goes, the time to an acknowledgement, and the spool.
const SUMS_LINES: usize = 4;
/// Of the place of a server, what is shown in a narrow terminal.
const PLACE_MIN: usize = 12;

/// Draws, and returns how many rows of each part there is room for. Puts the places of `screen` where there is something.
pub(super) fn draw(model: &Model, screen: &mut Screen, area: Rect, buffer: &mut Buffer) -> [usize; PARTS] {
    let (columns, look) = (usize::from(area.width), Look::new(screen.has_colours));
    let shown: Vec<Shown<'_>> = (0..PANES).map(|pane| shown(model, screen, pane)).collect();
    let heights = heights(&wanted(model, screen, &shown, area));
    screen.set_footer(heights.footer > 0);
    let mut rows = [0; PARTS];
    rows[FINDINGS] = heights.findings;
    let mut lines = vec![title(model, screen, columns, &look)];
    lines.extend(findings(model, screen, heights.findings, columns, &look));
    lines.extend(sums(model, columns, &look).into_iter().take(heights.sums));
    for (pane, mut shown) in shown.into_iter().enumerate() {
        let part = pane + 1;
        let height = heights.panes[pane];
        rows[part] = height.saturating_sub(1);
        let most = shown.rows.len().saturating_sub(rows[part].max(1));
        shown.first = shown.first.min(most);
        screen.first[part] = shown.first;
        lines.extend(pane_view::lines(&model.panes[pane], &shown, height, columns, &look));
    }
    finish(lines, (model, screen), &heights, area, buffer, &look);
    rows
}

/// In focus they have a head, which says where one is.
fn findings(
    model: &Model,
    screen: &mut Screen,
    height: usize,
    columns: usize,
    look: &Look,
) -> Vec<Line<'static>> {
    let all = model.findings.len();
    let has_head = screen.has_keys && screen.focus == FINDINGS && all > 0 && height > 1;
    let rows = height - usize::from(has_head);
    let fits = findings_view::height(&model.findings, columns) <= rows;
    let most = if fits { 0 } else { all.saturating_sub(1) };
    screen.first[FINDINGS] = screen.first[FINDINGS].min(most);
    let first = screen.first[FINDINGS];
    let mut lines = Vec::new();
    if has_head {
        let text = format!("* WHAT IS WRONG, from {} of {all}", first + 1);
        lines.push(Line::styled(fit(&text, columns, true), look.head(true)));
    }
    lines.extend(findings_view::lines(&model.findings, first, rows, columns, look));
    lines
}

/// The height that shows everything.
pub(super) fn full_height(model: &Model, screen: &Screen, columns: usize) -> usize {
    let rows: usize = model.panes.iter().map(|pane| pane.shown(&screen.filter, None).len() + 1).sum();
    1 + findings_view::height(&model.findings, columns) + SUMS_LINES + rows
}

fn shown<'a>(model: &'a Model, screen: &Screen, pane: usize) -> Shown<'a> {
    let part = pane + 1;
    Shown {
        rows: model.panes[pane].shown(&screen.filter, screen.sort[part]),
        first: screen.first[part],
        first_column: screen.first_column[part],
        sort: screen.sort[part],
        is_in_focus: screen.has_keys && screen.focus == part,
    }
}

fn wanted(model: &Model, screen: &Screen, shown: &[Shown<'_>], area: Rect) -> Wanted {
    let mut rows = [0; PANES];
    for (pane, shown) in shown.iter().enumerate() {
        rows[pane] = shown.rows.len();
    }
    Wanted {
        height: usize::from(area.height),
        sums: SUMS_LINES,
        // With a head, in focus.
        findings: findings_view::height(&model.findings, usize::from(area.width))
            + usize::from(screen.has_keys && screen.focus == FINDINGS && !model.findings.is_empty()),
        rows,
        focus: screen.focus.checked_sub(1),
        has_footer: screen.has_keys,
    }
}

fn finish(
    mut lines: Vec<Line<'static>>,
    (model, screen): (&Model, &Screen),
    heights: &Heights,
    area: Rect,
    buffer: &mut Buffer,
    look: &Look,
) {
    let height = usize::from(area.height);
    if screen.shows_help {
        lines.truncate(1);
        lines.extend(keys::HELP.iter().map(|line| Line::from(*line)));
    }
    if heights.footer > 0 {
        lines.resize(height - 1, Line::default());
        lines.push(footer(model, screen, usize::from(area.width), look));
    }
    Paragraph::new(lines).render(area, buffer);
}

/// Who it is, and how it is; the latter stays if there is little room.
fn title(model: &Model, screen: &Screen, columns: usize, look: &Look) -> Line<'static> {
    let (mut state, style) = match (&screen.away, &model.state) {
        (Some(away), _) => (safe(away), look.level(Some(Level::Problem))),
        (None, State::Stopping) => ("stopping".to_owned(), look.level(Some(Level::Warning))),
        (None, State::NotReady) => ("! not ready".to_owned(), look.level(Some(Level::Problem))),
        (None, State::Problems(1)) => ("! 1 problem".to_owned(), look.level(Some(Level::Problem))),
        (None, State::Problems(count)) => (format!("! {count} problems"), look.level(Some(Level::Problem))),
        (None, State::Well) => ("works as configured".to_owned(), look.well()),
    };
    if screen.is_paused {
        state = format!("PAUSED  {state}");
    }
    let state = cut(&state, columns);
    let room = columns.saturating_sub(width(&state) + 2);
    let who = fit(&who(&model.title, room), room, true);
    let gap = " ".repeat(columns.saturating_sub(width(&who) + width(&state)));
    Line::from(vec![Span::styled(who, Look::strong()), Span::raw(gap), Span::styled(state, style)])
}

/// As many parts as fit. If the second one, which says where the server is, does not, its middle is left out.
fn who(parts: &[String], room: usize) -> String {
    let mut text = String::new();
    for (place, part) in parts.iter().enumerate() {
        let part = safe(part);
        let gap = if place == 0 { "" } else { "  " };
        let left = room.saturating_sub(width(&text) + gap.len());
        let fits = place == 0 || width(&part) <= left;
        if !fits && (place > 1 || left < PLACE_MIN) {
            break;
        }
        text += gap;
        text += &if fits { part } else { cut_middle(&part, left) };
    }
    text
}

fn sums(model: &Model, columns: usize, look: &Look) -> Vec<Line<'static>> {
    let (balance, style) = match model.balance {
        Balance::Balances => ("  balances".to_owned(), look.well()),
        Balance::Moving => ("  flows".to_owned(), Look::strong()),
        Balance::OffBy(off) => (format!("  OFF BY {off}"), look.level(Some(Level::Problem))),
    };
    let equation = |shown: fn(u64) -> String| {
        let signs = ["", " = ", " + ", " + ", " + "];
        // Most servers filter nothing.
        let is_shown = |(Term { name, value }, _): &(&Term, &str)| *name != "filtered" || *value > 0;
        let terms = model.terms.iter().zip(signs).filter(is_shown);
        terms
            .map(|(Term { name, value }, sign)| format!("{sign}{name} {}", shown(*value)))
            .collect::<String>()
    };
    let room = columns.saturating_sub(width(&balance));
    let exactly = equation(exact);
    let equation = if width(&exactly) > room { equation(count) } else { exactly };
    let mut lines =
        vec![Line::from(vec![Span::styled(equation, Look::strong()), Span::styled(balance, style)])];
    lines.extend(model.facts.iter().map(|fact| Line::from(cut(fact, columns))));
    lines
}

fn footer(model: &Model, screen: &Screen, columns: usize, look: &Look) -> Line<'static> {
    let text = if let Some(SinkOrder { name, pauses }) = screen.order(model) {
        let what = if pauses { "Pause" } else { "Resume" };
        format!("{what} sink {name}?  Enter does it, Up and Down choose another, Esc ends it")
    } else if let Some(notice) = &screen.notice {
        notice.clone()
    } else if screen.edits_filter {
        format!("Filter: {}_   Enter keeps it, Esc ends it", screen.filter)
    } else if screen.filter.is_empty() {
        format!("{}  {} s", keys::FOOTER, screen.interval_seconds)
    } else {
        format!("Filter: {} (Esc ends it)   {}", screen.filter, keys::SHORT_FOOTER)
    };
    Line::styled(fit(&safe(&text), columns, true), look.head(false))
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Instant;

    use bbq_server::status::Status;
    use serde_json::json;

    use super::super::screen::Action;
    use super::super::snapshot::Snapshot;
    use super::*;

    /// A server with five problems, a listener with a wide name, and an error that writes to terminals.
    pub(in super::super) fn status() -> Status {
        let ledger = json!({ "received": 7, "dropped": { "kernel": 7 }, "cut": 0, "duplicates": 0, "skipped": 0, "refused": 0 });
        let socket = json!({ "index": 0, "worker": 0, "accepted": 7, "queue": 4000, "backlog": 4096, "drops": 7, "starved": 0,
                             "rescued": 0, "accept_delay_ms": null });
        let listener = json!({ "spec": "syslog+udp://127.0.0.1:5514?name=\u{65e5}\u{672c}", "name": "\u{65e5}\u{672c}",
                               "address": "udp:127.0.0.1:5514", "configured": "auto", "distribution": "shared", "fallback": null,
                               "steering": null, "sockets": [socket], "foreign": [], "evenness": null, "ledger": ledger });
        let finding = |number: u32| {
            json!({ "level": "problem", "name": "some", "subject": number.to_string(),
                    "text": format!("problem {number} \u{1b}[31m is one that is long, so that it takes more than the width of a terminal of 80 columns"),
                    "remedy": "do something about it, which takes more than one line, too, as it says what to look at, and then what to change" })
        };
        let status = json!({
            "ready": true, "findings": (1..=5).map(finding).collect::<Vec<_>>(), "refused_change": null, "version": "1", "pid": 1,
            "uptime_seconds": 1, "connections_max": 1,
            "workers": [{ "index": 0, "connections": 1, "sessions": 0, "sessions_active": 0, "heartbeat_ms": 5000, "stalled": true }],
            "listeners": [listener],
            "sinks": [{ "spec": "null:", "name": "null:", "delivered": 0, "queued": 0, "lag_seconds": 0.0, "dropped": {}, "problem": "no" }],
            "ledger": { "received": u64::MAX, "delivered": 0, "queued": 0, "dropped": {} },
            "spool": { "bytes": 1, "bytes_max": 0, "segments": 1, "quarantined": 1, "lanes": [] },
        });
        serde_json::from_value(status).unwrap()
    }

    fn model() -> Model {
        let now = Snapshot { at: Instant::now(), status: status() };
        Model::new("127.0.0.1:7790".parse().unwrap(), Some(&now), &now)
    }

    fn frame(model: &Model, screen: &mut Screen, columns: u16, rows: u16) -> Vec<String> {
        let area = Rect::new(0, 0, columns, rows);
        let mut buffer = Buffer::empty(area);
        draw(model, screen, area, &mut buffer);
        (0..rows).map(|y| (0..columns).map(|x| buffer[(x, y)].symbol()).collect()).collect()
    }

    #[test]
    fn every_size_and_focus_can_be_drawn() {
        let model = model();
        for focus in 0..PARTS {
            for (rows, columns) in
                (0..40).flat_map(|rows| (0..100).step_by(3).map(move |columns| (rows, columns)))
            {
                let mut screen = Screen::new(1.0, true, true);
                screen.focus = focus;
                screen.first = [usize::MAX; PARTS];
                screen.first_column = [2; PARTS];
                screen.shows_help = rows % 7 == 6;
                frame(&model, &mut screen, columns, rows);
            }
        }
    }

    #[test]
    fn a_sink_is_told_what_the_question_says_and_nothing_unseen() {
        let of = |is_paused| {
            let mut status = status();
            status.sinks[0].paused = is_paused;
            Model::new("127.0.0.1:7790".parse().unwrap(), None, &Snapshot { at: Instant::now(), status })
        };
        let (delivers, paused) = (of(false), of(true));
        let (mut screen, rows) = (Screen::new(1.0, false, true), [0; PARTS]);
        frame(&delivers, &mut screen, 80, 24);
        screen.act(Action::Order, &delivers, &rows);
        // Somebody else pauses it meanwhile.
        let shown = frame(&paused, &mut screen, 80, 24);
        assert!(shown[23].starts_with("Pause sink null:?"), "{}", shown[23]);
        let order = SinkOrder { name: "null:".to_owned(), pauses: true };
        assert_eq!(screen.take_order(&paused), Some(order));
        assert_eq!(screen.take_order(&paused), None);
        screen.act(Action::Order, &delivers, &rows);
        frame(&delivers, &mut screen, 80, 5);
        assert_eq!(screen.take_order(&delivers), None, "the question is gone");
        screen.act(Action::Order, &delivers, &rows);
        assert_eq!(screen.take_order(&delivers), None, "there is no line to ask in");
    }

    #[test]
    fn the_title_says_where_the_server_is_before_all_else() {
        let parts = ["bbq 0.1.0", "logs-7:/var/lib/bbq", "pid 23406", "up 4.0 s", "127.0.0.1:7790"];
        let parts = parts.map(str::to_owned);
        assert_eq!(who(&parts, 80), parts.join("  "));
        assert_eq!(who(&parts, 60), "bbq 0.1.0  logs-7:/var/lib/bbq  pid 23406  up 4.0 s");
        assert_eq!(who(&parts, 36), "bbq 0.1.0  logs-7:/var/lib/bbq");
        assert_eq!(who(&parts, 26), "bbq 0.1.0  logs-7..lib/bbq");
        assert_eq!(who(&parts, 20), "bbq 0.1.0");
    }

    #[test]
    fn a_ledger_is_one_line_in_80_columns() {
        let mut model = model();
        for (term, value) in model.terms.iter_mut().zip([123_456_789_012, 1, 123_456_789_000, 11]) {
            term.value = value;
        }
        model.balance = Balance::Balances;
        let text = sums(&model, 80, &Look::new(false))[0].to_string();
        assert_eq!(text, "received 123 G = delivered 1 + queued 123 G + dropped 11  balances");
    }

    #[test]
    fn five_problems_and_what_to_do_are_on_a_screen_of_80_by_24_and_obey_nobody() {
        let frame = frame(&model(), &mut Screen::new(1.0, false, true), 80, 24);
        let all = frame.join("\n");
        for number in 1..=5 {
            let problem = format!("! problem {number} \\u{{1b}}[31m is one");
            assert!(frame.iter().any(|line| line.starts_with(&problem)), "{all}");
        }
        assert_eq!(frame.iter().filter(|line| line.contains("do something about it")).count(), 5, "{all}");
        for head in ["SINK", "LISTENER", "WORKER", "SOCKET", "F10 Quit"] {
            assert!(all.contains(head), "{all}");
        }
        assert!(!all.contains('\x1b'));
    }
}
