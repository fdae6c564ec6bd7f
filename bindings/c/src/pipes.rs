//! The pipes between bbq and a program that its sink `exec:` has started. They are taken from the program: afterwards its standard input
//! is empty, and its standard output is its standard error, so that nothing else reads a line away or writes between the numbers.
//!
//! Invariant: SIGTERM ends the waiting for lines, and nothing else. A program that handles SIGTERM itself keeps its handler.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

/// What the pipe is made to hold: larger batches than with its 64 KiB.
const PIPE_BYTES: i32 = 1024 * 1024;
/// Where the handler of SIGTERM writes to, and whose it is: a child ends by SIGTERM as any program.
static WAKER: AtomicI32 = AtomicI32::new(-1);
static OWNER: AtomicI32 = AtomicI32::new(0);

/// See the module.
pub(crate) struct Pipes {
    input: File,
    output: File,
    /// Readable after SIGTERM. Its other end is never closed, as the handler of the signal may still run in another thread.
    wake: OwnedFd,
    is_term_caught: bool,
}

/// What [`Pipes::wait`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Input,
    Nothing,
    Stop,
}

impl Pipes {
    /// Takes the pipes. To be called once in a process.
    ///
    /// # Errors
    /// Standard input or output is closed, or there are too many open files.
    pub(crate) fn take() -> io::Result<Pipes> {
        let (input, output) = (duplicate(libc::STDIN_FILENO)?, duplicate(libc::STDOUT_FILENO)?);
        // It may be no pipe, or all that a user may have is taken: then batches are smaller.
        // SAFETY: the descriptor is open.
        let _result = unsafe { libc::fcntl(input.as_raw_fd(), libc::F_SETPIPE_SZ, PIPE_BYTES) };
        let nothing = File::options().read(true).write(true).open("/dev/null")?;
        replace(libc::STDIN_FILENO, nothing.as_raw_fd())?;
        replace(libc::STDOUT_FILENO, libc::STDERR_FILENO)
            .or_else(|_| replace(libc::STDOUT_FILENO, nothing.as_raw_fd()))?;
        let (wake, waker) = wake_pipe()?;
        OWNER.store(process_id(), Ordering::Relaxed);
        WAKER.store(waker, Ordering::Relaxed);
        let is_term_caught = catch_term()?;
        Ok(Pipes { input: input.into(), output: output.into(), wake, is_term_caught })
    }

    /// Waits until there is something to read, or SIGTERM has come; or only looks.
    pub(crate) fn wait(&self, is_patient: bool) -> io::Result<Found> {
        let poll = |fd: RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut fds = [poll(self.wake.as_raw_fd()), poll(self.input.as_raw_fd())];
        let timeout = if is_patient { -1 } else { 0 };
        // SAFETY: an array of two.
        while unsafe { libc::poll(fds.as_mut_ptr(), 2, timeout) } < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        Ok(match fds.map(|fd| fd.revents != 0) {
            [true, _] => Found::Stop,
            [false, true] => Found::Input,
            [false, false] => Found::Nothing,
        })
    }

    /// Reads what is there. Returns 0 at the end.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.input.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    /// Writes a number. Returns whether bbq is there to read it; a program that does not ignore SIGPIPE ends if not.
    pub(crate) fn acknowledge(&mut self, lines: u64) -> io::Result<bool> {
        match self.output.write_all(format!("{lines}\n").as_bytes()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            written => written.map(|()| true),
        }
    }
}

impl Drop for Pipes {
    fn drop(&mut self) {
        if self.is_term_caught && OWNER.load(Ordering::Relaxed) == process_id() {
            default_term();
        }
    }
}

/// The number of this process.
pub(crate) fn process_id() -> i32 {
    // SAFETY: no arguments, and it cannot fail.
    unsafe { libc::getpid() }
}

/// Whether a descriptor is a terminal.
pub(crate) fn is_terminal(fd: RawFd) -> bool {
    // SAFETY: any number may be asked for.
    unsafe { libc::isatty(fd) == 1 }
}

fn checked(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A copy that no program inherits.
fn duplicate(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: any number may be asked for; the copy is nobody else's.
    let copy = checked(unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) })?;
    // SAFETY: as above.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Makes a standard descriptor the same as another one.
fn replace(standard: RawFd, by: RawFd) -> io::Result<()> {
    // SAFETY: the standard descriptors belong to nobody in particular, and the program gave this one up by its call.
    checked(unsafe { libc::dup2(by, standard) }).map(drop)
}

fn wake_pipe() -> io::Result<(OwnedFd, RawFd)> {
    let mut fds = [-1; 2];
    // SAFETY: an array of two.
    checked(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) })?;
    // SAFETY: the pipe was just made.
    Ok((unsafe { OwnedFd::from_raw_fd(fds[0]) }, fds[1]))
}

/// Runs in a signal handler.
extern "C" fn on_term(_: i32) {
    if OWNER.load(Ordering::Relaxed) != process_id() {
        default_term();
        // SAFETY: it may be called in a signal handler. The signal is delivered when this handler returns.
        unsafe { libc::raise(libc::SIGTERM) };
        return;
    }
    // SAFETY: write may be called in a signal handler, and errno is given back. A full pipe is readable already.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        libc::write(WAKER.load(Ordering::Relaxed), b"\n".as_ptr().cast(), 1);
        *errno = before;
    }
}

/// Catches SIGTERM if nobody does. Returns whether it is caught here.
fn catch_term() -> io::Result<bool> {
    // SAFETY: sigaction is a plain struct, for which zeros are valid; both are valid during the calls.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        checked(libc::sigaction(libc::SIGTERM, std::ptr::null(), &raw mut action))?;
        if action.sa_sigaction != libc::SIG_DFL {
            return Ok(false);
        }
        action.sa_sigaction = on_term as *const () as usize;
        // What the program waits for in its callback goes on.
        action.sa_flags = libc::SA_RESTART;
        checked(libc::sigaction(libc::SIGTERM, &raw const action, std::ptr::null_mut())).map(|_| true)
    }
}

/// SIGTERM ends the process again.
fn default_term() {
    // SAFETY: signal may be called in a signal handler.
    unsafe { libc::signal(libc::SIGTERM, libc::SIG_DFL) };
}
