//! Colours and marks. Everything that a colour says is also said by a character or in bold, for terminals without colours.

use bbq_server::status::Level;
use ratatui::style::{Color, Modifier, Style};

pub(super) struct Look {
    has_colours: bool,
}

impl Look {
    pub(super) fn new(has_colours: bool) -> Look {
        Look { has_colours }
    }

    fn style(&self, colour: Color, modifier: Modifier) -> Style {
        let style = Style::new().add_modifier(modifier);
        if self.has_colours { style.fg(colour) } else { style }
    }

    pub(super) fn level(&self, level: Option<Level>) -> Style {
        match level {
            Some(Level::Problem) => self.style(Color::Red, Modifier::BOLD),
            Some(Level::Notice | Level::Warning) => self.style(Color::Yellow, Modifier::empty()),
            None => Style::new(),
        }
    }

    pub(super) fn well(&self) -> Style {
        self.style(Color::Green, Modifier::empty())
    }

    pub(super) fn strong() -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The head of a table.
    pub(super) fn head(&self, is_in_focus: bool) -> Style {
        let style = self.style(Color::Cyan, Modifier::REVERSED);
        if is_in_focus { style.add_modifier(Modifier::BOLD) } else { style }
    }
}

/// In front of a line.
pub(super) fn mark(level: Option<Level>) -> &'static str {
    match level {
        Some(Level::Problem) => "! ",
        Some(Level::Notice) => "* ",
        Some(Level::Warning) => "~ ",
        None => "  ",
    }
}
