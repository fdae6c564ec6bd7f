//! What each key means, as in htop.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::screen::Action;

/// The help, a line each.
pub(super) const HELP: &[&str] = &[
    "q, F10           quit",
    "Up, Down         scroll the table in focus (its head has a *)",
    "PgUp, PgDn       scroll by a page; Home, End go to its ends",
    "Left, Right      columns that do not fit",
    "Tab, Shift-Tab   the next or last table; the problems are one, too",
    "s, F6            sort by the next column; behind the last, as configured",
    "I                invert the order",
    "/, F4            only rows with a text; Enter keeps it, Esc ends it",
    "space            hold the numbers; again, go on.  +, -: ask less or more often",
    "p                pause a sink, or resume it: Up, Down choose, Enter does it",
    "h, F1, ?         this help;  Ctrl-L: draw again;  Ctrl-Z: suspend",
    "",
    "! problem, * notice, ~ warning. < and > in a head: Left and Right show more",
    "RATE       by all: the sink furthest behind; by any: the sink furthest ahead",
    "ack        from a group's first message with a waiting client to disk: p50, p99",
    "RECEIVED   with dropped ones;  ON DISK: messages that the worker has written",
    "QUEUE      what waits in the kernel: connections, or bytes of datagrams",
    "P99, P50   how long connections waited until a worker took them",
    "RESCUED    taken by other workers, as its own was late;  STARVED: times",
    "           without descriptors or memory;  REFUSED: sessions and requests",
    "LOAD       whether workers take even shares; from 200 connections on",
    "OTHER PROCESSES  at the same address;  LAG: how far a sink is behind",
];

/// For the last line.
pub(super) const SHORT_FOOTER: &str = "F1 Help F10 Quit";
pub(super) const FOOTER: &str = "F1 Help Tab Table F4 Filter F6 Sort Space Hold P Sink +- Pace F10 Quit";

/// `None` if the key has no meaning.
pub(super) fn action_of(key: KeyEvent, edits_filter: bool) -> Option<Action> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c') => Some(Action::Interrupt),
            KeyCode::Char('z') => Some(Action::Suspend),
            KeyCode::Char('l') => Some(Action::Redraw),
            _ => None,
        };
    }
    let action = match key.code {
        KeyCode::F(10) => Action::Quit,
        KeyCode::F(1) => Action::Help,
        KeyCode::F(4) => Action::Filter,
        KeyCode::F(6) => Action::Sort,
        KeyCode::Up => Action::Scroll(-1),
        KeyCode::Down => Action::Scroll(1),
        KeyCode::Left => Action::Columns(-1),
        KeyCode::Right => Action::Columns(1),
        KeyCode::PageUp => Action::Page(-1),
        KeyCode::PageDown => Action::Page(1),
        KeyCode::Home => Action::First,
        KeyCode::End => Action::Last,
        KeyCode::Tab => Action::Focus(1),
        KeyCode::BackTab => Action::Focus(-1),
        KeyCode::Esc => Action::Cancel,
        KeyCode::Enter => Action::Accept,
        KeyCode::Backspace => Action::Erase,
        KeyCode::Char(character) if edits_filter => Action::Type(character),
        KeyCode::Char(character) => of_character(character)?,
        _ => return None,
    };
    // Without the line of the filter, nobody sees what is erased.
    (edits_filter || action != Action::Erase).then_some(action)
}

fn of_character(character: char) -> Option<Action> {
    Some(match character {
        'q' => Action::Quit,
        'h' | '?' => Action::Help,
        '/' => Action::Filter,
        's' => Action::Sort,
        'I' => Action::Invert,
        ' ' => Action::Pause,
        'p' => Action::Order,
        '+' => Action::Slower,
        '-' => Action::Faster,
        _ => return None,
    })
}
