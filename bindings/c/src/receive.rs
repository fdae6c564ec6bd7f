//! `bbq_receive`: gives the messages of the sink `exec:` that has started the program to a function of the program.

use std::ffi::{c_char, c_int, c_void};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::boundary;
use crate::failure::{Failure, Status};
use crate::lines::Lines;
use crate::pipes::{Found, Pipes, is_terminal, process_id};
use crate::pointer::null;

/// What the sink tells about itself: `ack=line format=json`.
const VARIABLE: &str = "BBQ_EXEC";
/// At most of one read.
const READ_BYTES: usize = 64 * 1024;

/// What a line is: the option `format` of the sink.
#[repr(i32)]
pub enum Format {
    /// A message as it came. One with line feeds has several lines.
    Raw = 0,
    /// A JSON object with the message and what bbq knows about it.
    Json = 1,
}

/// A line without its line feed; valid during the call. No zero byte follows it, but it may have zero bytes.
#[repr(C)]
pub struct Line {
    pub bytes: *const c_char,
    pub length: usize,
}

/// Called with the lines that have come, 1 to 1,024. Returns 0 when all of them are done with. Must not throw or jump.
pub type ReceiveCallback =
    Option<unsafe extern "C" fn(lines: *const Line, count: usize, user: *mut c_void) -> c_int>;

/// Calls `callback` with the messages of the sink `exec:` that has started this program, again and again. `format` is a bbq_format, the
/// same as that of the sink, which must have ack=line, too. The lines of a call are acknowledged together when it returns 0. If the program
/// ends before that, in whatever way, they come again: bbq starts it again, after an exit code other than 0 with a pause.
///
/// Returns BBQ_STATUS_OK when bbq stops, when bbq was killed, and at SIGTERM, once the lines in hand are done with, unless the program
/// handles SIGTERM itself. Then the program should end with exit code 0, and otherwise with another: after BBQ_STATUS_UNFINISHED when
/// the callback returned something else than 0; after BBQ_STATUS_OPTION at a terminal, or if the sink has other options.
///
/// From this call on, standard input is empty, and standard output is standard error, which goes to the log of bbq. Call it once in a
/// process. A child that is forked in the callback must not return from it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bbq_receive(format: i32, callback: ReceiveCallback, user: *mut c_void) -> Status {
    boundary::status(|| {
        let callback = callback.ok_or_else(null("callback"))?;
        check(format)?;
        static CALLED: AtomicBool = AtomicBool::new(false);
        if CALLED.swap(true, Ordering::Relaxed) {
            return Err(Failure::Other(
                Status::Closed,
                "bbq_receive was called before in this process".to_owned(),
            ));
        }
        // SAFETY: the caller may be called with its own pointer, and the lines live during the call.
        receive(|lines| unsafe { callback(lines.as_ptr(), lines.len(), user) })
    })
}

fn receive(mut callback: impl FnMut(&[Line]) -> c_int) -> Result<(), Failure> {
    let mut pipes = Pipes::take().map_err(failed("standard input and output cannot be taken"))?;
    let (mut lines, mut chunk) = (Lines::default(), vec![0; READ_BYTES]);
    let mut done = 0;
    loop {
        let mut is_end = false;
        while lines.has_room() && !is_end {
            match pipes.wait(!lines.has_line()).map_err(failed("cannot wait for standard input"))? {
                Found::Stop => return Ok(()),
                Found::Nothing => break,
                Found::Input => {}
            }
            let bytes = pipes.read(&mut chunk).map_err(failed("cannot read standard input"))?;
            lines.add(&chunk[..bytes]);
            is_end = bytes == 0;
        }
        while lines.has_line() {
            done += hand_out(&mut lines, &mut callback)?;
            if !pipes.acknowledge(done).map_err(failed("cannot write to standard output"))? {
                return Ok(());
            }
            if pipes.wait(false).map_err(failed("cannot look at standard input"))? == Found::Stop {
                return Ok(());
            }
        }
        if is_end {
            return Ok(());
        }
    }
}

/// Calls the callback with the next lines, and returns how many they are.
fn hand_out(lines: &mut Lines, callback: &mut impl FnMut(&[Line]) -> c_int) -> Result<u64, Failure> {
    let of_c = |line: &[u8]| Line { bytes: line.as_ptr().cast(), length: line.len() };
    let batch: Vec<Line> = lines.take().map(of_c).collect();
    let before = process_id();
    let result = callback(&batch);
    if process_id() != before {
        let text = "a forked child returned from the callback of bbq_receive: only the parent acknowledges";
        return Err(Failure::Other(Status::Forked, text.to_owned()));
    }
    if result != 0 {
        let text = format!("the callback of bbq_receive returned {result}: its lines come again");
        return Err(Failure::Other(Status::Unfinished, text));
    }
    lines.forget();
    Ok(batch.len() as u64)
}

fn failed(what: &'static str) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::Other(Status::System, format!("{what}: {error}"))
}

/// Whether bbq gives the program what it wants, in a way that it can acknowledge.
fn check(format: i32) -> Result<(), Failure> {
    let format = match format {
        format if format == Format::Raw as i32 => "raw",
        format if format == Format::Json as i32 => "json",
        other => {
            return Err(Failure::argument(format!("format is {other}; use one of the constants in bbq.h")));
        }
    };
    let needed = format!("ack=line format={format}");
    let Some(told) = std::env::var_os(VARIABLE) else {
        if !is_terminal(libc::STDIN_FILENO) {
            // Lines from a file or another program: a way to try it.
            return Ok(());
        }
        let text = format!(
            "bbq starts this program, and gives it the messages: its configuration needs a table [[sink]] with \
             spec = \"exec:exec PROGRAM\", ack = \"line\" and format = \"{format}\""
        );
        return Err(Failure::Other(Status::Option, text));
    };
    let told = told.to_string_lossy();
    if needed.split(' ').all(|word| told.split(' ').any(|other| other == word)) {
        return Ok(());
    }
    let text = format!(
        "bbq gives this program its messages with {told}, but it needs {needed}: change these options of the sink exec:"
    );
    Err(Failure::Other(Status::Option, text))
}
