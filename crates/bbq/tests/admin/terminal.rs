//! A terminal: a pseudo-terminal of the kernel, and an emulator that reads what a program writes there.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pty_process::Size;
use pty_process::blocking::{Pty, open};
use rustix::termios::{LocalModes, tcgetattr};
use vt100::Parser;

use crate::support::program::Program;
use crate::support::{BBQ, PATIENCE, Setup};

/// A program in a terminal. It is killed when this is dropped.
pub(super) struct Terminal {
    program: Program,
    pty: Arc<Pty>,
    screen: Arc<Screen>,
    /// Before the program started.
    modes: LocalModes,
}

/// What the emulator shows, and whether the program has closed the terminal.
struct Screen {
    shown: Mutex<(Parser, bool)>,
    changed: Condvar,
}

impl Screen {
    fn locked(&self) -> MutexGuard<'_, (Parser, bool)> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next change, for a while.
    fn next<'a>(&self, shown: MutexGuard<'a, (Parser, bool)>) -> MutexGuard<'a, (Parser, bool)> {
        self.changed.wait_timeout(shown, PATIENCE / 60).unwrap_or_else(PoisonError::into_inner).0
    }
}

/// How many bytes there are up to the beginning of a frame that has no end yet: nobody sees a part of a frame.
fn whole_frames(bytes: &[u8]) -> usize {
    const MARK: &[u8] = b"\x1b[?2026";
    let mut whole = 0;
    let mut is_in_frame = false;
    for at in memchr::memmem::find_iter(bytes, MARK) {
        match bytes.get(at + MARK.len()) {
            Some(b'h') => (whole, is_in_frame) = (at, true),
            Some(_) => is_in_frame = false,
            None => return if is_in_frame { whole } else { at },
        }
    }
    if is_in_frame {
        return whole;
    }
    // The beginning of a mark may stand at the end.
    let beginning = (1..MARK.len()).rev().find(|length| bytes.ends_with(&MARK[..*length])).unwrap_or(0);
    bytes.len() - beginning
}

fn size(value: u16) -> NonZeroU16 {
    NonZeroU16::new(value).expect("a size")
}

impl Terminal {
    /// `bbq top` of a server, in 80 columns and 24 lines.
    pub(super) fn top(setup: &Setup, arguments: &[&str]) -> Terminal {
        Terminal::top_with(setup, arguments, &[])
    }

    /// The same, with variables of the environment.
    pub(super) fn top_with(setup: &Setup, arguments: &[&str], variables: &[(&str, &str)]) -> Terminal {
        let (pty, pts) = open().expect("a pseudo-terminal");
        pty.resize(Size::new(24, 80)).expect("a size");
        let modes = tcgetattr(&pty).expect("a terminal").local_modes;
        let mut command = Command::new(BBQ);
        command.args(["top", "--admin", &setup.admin()]).args(arguments);
        command.env_remove("NO_COLOR").env("TERM", "xterm-256color").envs(variables.iter().copied());
        let child = pty_process::blocking::Command::from(command).spawn(pts).expect("it starts");
        let screen = Arc::new(Screen {
            shown: Mutex::new((Parser::new(size(24), size(80), 0), false)),
            changed: Condvar::new(),
        });
        let (pty, reads) = (Arc::new(pty), Arc::clone(&screen));
        let from = Arc::clone(&pty);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            let mut unread = Vec::new();
            loop {
                // An error is how the kernel says that no program has the terminal any more.
                let length = (&*from).read(&mut bytes).unwrap_or(0);
                unread.extend_from_slice(&bytes[..length]);
                let whole = if length == 0 { unread.len() } else { whole_frames(&unread) };
                let mut shown = reads.locked();
                shown.0.process(&unread[..whole]);
                unread.drain(..whole);
                shown.1 = length == 0;
                reads.changed.notify_all();
                if length == 0 {
                    return;
                }
            }
        });
        Terminal { program: Program::of(child), pty, screen, modes }
    }

    pub(super) fn pid(&self) -> u32 {
        self.program.id()
    }

    pub(super) fn press(&self, keys: &str) {
        (&*self.pty).write_all(keys.as_bytes()).expect("it has a terminal");
    }

    pub(super) fn resize(&self, rows: u16, columns: u16) {
        self.screen.locked().0.screen_mut().set_size(size(rows), size(columns));
        self.pty.resize(Size::new(rows, columns)).expect("a size");
    }

    /// Waits until the screen is as wanted, and returns its lines.
    pub(super) fn wait(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        self.wait_screen(what, |screen| wanted(&screen.contents())).contents()
    }

    pub(super) fn wait_screen(&self, what: &str, wanted: impl Fn(&vt100::Screen) -> bool) -> vt100::Screen {
        let begun = Instant::now();
        let mut shown = self.screen.locked();
        loop {
            if wanted(shown.0.screen()) {
                return shown.0.screen().clone();
            }
            assert!(
                begun.elapsed() < PATIENCE && !shown.1,
                "{what} did not come:\n{}",
                shown.0.screen().contents()
            );
            shown = self.screen.next(shown);
        }
    }

    /// Waits for the end of the program: its exit code, after the terminal is as it was before.
    pub(super) fn wait_end(mut self) -> Option<i32> {
        let begun = Instant::now();
        let mut shown = self.screen.locked();
        while !shown.1 {
            assert!(begun.elapsed() < PATIENCE, "it does not end:\n{}", shown.0.screen().contents());
            shown = self.screen.next(shown);
        }
        let screen = shown.0.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor(), "{}", screen.contents());
        assert_eq!(
            tcgetattr(&*self.pty).expect("a terminal").local_modes,
            self.modes,
            "keys are shown again"
        );
        drop(shown);
        self.program.wait().expect("it was ours").code()
    }
}
