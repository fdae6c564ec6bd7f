//! One frame as text, for `--once`.

use std::io::{self, IsTerminal as _, Write};

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::model::Model;
use super::screen::Screen;
use super::view;

/// Where the width of a terminal is not known.
const COLUMNS_DEFAULT: u16 = 80;
/// A buffer has a cell for each character of each line.
const COLUMNS_MAX: u16 = 500;
/// 256 listeners with 256 sockets each have more; what is behind is not printed.
const LINES_MAX: usize = 4000;

/// The width of standard output if that is a terminal; otherwise what COLUMNS says.
pub(super) fn columns() -> u16 {
    let of_terminal = || ratatui::crossterm::terminal::size().ok().map(|(columns, _)| columns);
    let set = || std::env::var("COLUMNS").ok()?.parse().ok();
    let columns = if io::stdout().is_terminal() { of_terminal() } else { set() };
    columns.filter(|columns| *columns > 0).unwrap_or(COLUMNS_DEFAULT).min(COLUMNS_MAX)
}

/// Writes a frame that is as high as its content.
pub(super) fn write(model: &Model, screen: &mut Screen, columns: u16, out: &mut dyn Write) -> io::Result<()> {
    let height = view::full_height(model, screen, usize::from(columns)).min(LINES_MAX);
    let area = Rect::new(0, 0, columns, u16::try_from(height).unwrap_or(u16::MAX));
    let mut buffer = Buffer::empty(area);
    view::draw(model, screen, area, &mut buffer);
    for y in 0..area.height {
        let mut line = String::new();
        let mut skip = 0;
        for x in 0..area.width {
            // A wide character covers the cell behind it.
            if skip > 0 {
                skip -= 1;
                continue;
            }
            let symbol = buffer[(x, y)].symbol();
            skip = super::text::width(symbol).saturating_sub(1);
            line.push_str(symbol);
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
