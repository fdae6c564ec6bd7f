//! The terminal: taken over, given back on every way out, and its keys.

use std::io;
use std::thread;

use anyhow::Context as _;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEvent};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate};
use tokio::sync::mpsc;

/// Keys that are read and not acted on yet. The thread that reads waits then.
const KEYS_MAX: usize = 64;

/// What comes from the terminal.
pub(super) enum Input {
    Key(KeyEvent),
    Resized,
    /// It is gone.
    Closed(io::Error),
}

/// A terminal in its alternate screen. Its former state comes back when this is dropped, and when any thread panics.
pub(super) struct Terminal(DefaultTerminal);

impl Terminal {
    pub(super) fn open() -> anyhow::Result<Terminal> {
        let opened = ratatui::try_init();
        if opened.is_err() {
            ratatui::restore();
        }
        opened.map(Terminal).context("cannot use the terminal; --once prints one frame as text")
    }

    /// A terminal that can shows the whole frame at once: over a slow line, a part of one would say what is not so.
    pub(super) fn draw(&mut self, render: impl FnOnce(&mut ratatui::Frame<'_>)) -> io::Result<()> {
        execute!(io::stdout(), BeginSynchronizedUpdate)?;
        self.0.draw(render)?;
        execute!(io::stdout(), EndSynchronizedUpdate)
    }

    /// Everything is written again with the next frame. ratatui's own `clear` asks the terminal where the cursor is, and the thread that
    /// reads keys would take the answer.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        execute!(io::stdout(), Clear(ClearType::All))?;
        // Both buffers are blank then.
        self.0.swap_buffers();
        Ok(())
    }

    /// Gives the terminal to the shell, until the shell continues this process.
    pub(super) fn suspend(&mut self) -> anyhow::Result<()> {
        self.0.show_cursor()?;
        ratatui::restore();
        signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGTSTP)?;
        // The alternate screen is blank, as the new buffers are.
        self.0 = ratatui::try_init().context("cannot use the terminal again")?;
        Ok(())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Reads keys on a thread of its own, which ends with the process.
pub(super) fn inputs() -> anyhow::Result<mpsc::Receiver<Input>> {
    let (tell, inputs) = mpsc::channel(KEYS_MAX);
    thread::Builder::new().name("keys".to_owned()).spawn(move || {
        loop {
            let (input, is_last) = match event::read() {
                Ok(Event::Key(key)) => (Input::Key(key), false),
                Ok(Event::Resize(..)) => (Input::Resized, false),
                Ok(_) => continue,
                Err(error) => (Input::Closed(error), true),
            };
            if tell.blocking_send(input).is_err() || is_last {
                return;
            }
        }
    })?;
    Ok(inputs)
}
