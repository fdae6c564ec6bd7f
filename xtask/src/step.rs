//! One step: a command that is shown, runs with its output on the terminal, and must succeed.

use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

/// The prefix of a command that resets SIGINT to its default action.
const HEARS_INTERRUPTS: [&str; 2] = ["env", "--default-signal=INT"];

/// The feature of `bbq` and `bbq-server` that has every sink. Packages of the workspace without it are built as they are.
pub(crate) const EVERY_SINK: &str = "full";

/// Builds what is packaged: the lines of its code go to the package of the debug symbols.
pub(crate) const WITH_LINES: [(&str, &str); 1] = [("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only")];

/// A test program that prints nothing for so long hangs. The longest test without a line takes two minutes on a busy machine.
const SILENCE_MAX: Duration = Duration::from_secs(600);
/// Lines that are read and not shown yet: the terminal is rarely behind.
const LINES_QUEUED_MAX: usize = 1024;

/// Where cargo puts what it builds.
pub(crate) fn target_directory() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from)
}

/// A program that was built, by its place in the directory of the release profile.
pub(crate) fn built(name: &str) -> Result<String, String> {
    let program = target_directory().join("release").join(name);
    let shown = program.display().to_string();
    if program.exists() { Ok(shown) } else { Err(format!("there is no {shown}; run cargo xtask test first")) }
}

/// Runs `program`, with variables of the environment set in front of it.
pub(crate) fn run(variables: &[(&str, &str)], program: &str, arguments: &[&str]) -> Result<(), String> {
    timed(&shown(variables, program, arguments), || {
        let mut command = Command::new(program);
        command.args(arguments).envs(variables.iter().copied());
        command.status().map_err(|error| format!("cannot run {program}: {error}"))
    })
}

/// Runs tests, shows their output, and calls `watch` for each line, of standard output and standard error together. A test
/// program that prints nothing for `SILENCE_MAX` is killed, which its runner reports as a failure.
///
/// A background job of a script ignores SIGINT, and so does every program that it starts. Tests that send the signal would wait
/// forever, so it is reset for them.
pub(crate) fn run_watched(
    variables: &[(&str, &str)],
    program: &str,
    arguments: &[&str],
    watch: &mut dyn FnMut(&str),
) -> Result<(), String> {
    timed(&shown(variables, program, arguments), || {
        let mut command = Command::new(program);
        if fs::read_to_string("/proc/self/status").is_ok_and(|status| ignores_interrupt(&status)) {
            command = Command::new(HEARS_INTERRUPTS[0]);
            command.args(&HEARS_INTERRUPTS[1..]).arg(program);
        }
        command.args(arguments).envs(variables.iter().copied());
        status_watched(command, SILENCE_MAX, watch).map_err(|error| format!("cannot run {program}: {error}"))
    })
}

/// Runs the cargo that runs this program.
pub(crate) fn cargo(variables: &[(&str, &str)], arguments: &[&str]) -> Result<(), String> {
    let cargo = path_of_cargo();
    run(variables, &cargo, arguments).map_err(|problem| named(&problem, &cargo))
}

/// The same for tests.
pub(crate) fn cargo_watched(arguments: &[&str], watch: &mut dyn FnMut(&str)) -> Result<(), String> {
    let cargo = path_of_cargo();
    run_watched(&[], &cargo, arguments, watch).map_err(|problem| named(&problem, &cargo))
}

fn path_of_cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// Replaces the path of cargo by its name: under rustup, CARGO is the path of the toolchain's binary.
fn named(problem: &str, cargo: &str) -> String {
    problem.replace(cargo, "cargo")
}

fn timed(shown: &str, status: impl FnOnce() -> Result<ExitStatus, String>) -> Result<(), String> {
    eprintln!("xtask: {shown}");
    let begin = Instant::now();
    let status = status()?;
    let seconds = begin.elapsed().as_secs();
    if status.success() {
        eprintln!("xtask: done in {seconds} s");
        return Ok(());
    }
    Err(format!("failed ({status}) after {seconds} s: {shown}"))
}

fn status_watched(
    mut command: Command,
    silence_max: Duration,
    watch: &mut dyn FnMut(&str),
) -> io::Result<ExitStatus> {
    let (output, input) = io::pipe()?;
    command.stdout(input.try_clone()?).stderr(input);
    let mut child = command.spawn()?;
    // Dropped here, as it has the write ends: the output ends when every process that has them has ended.
    drop(command);
    let (lines, read) = mpsc::sync_channel(LINES_QUEUED_MAX);
    let reader = thread::spawn(move || send_lines(output, &lines));
    loop {
        match read.recv_timeout(silence_max) {
            Ok(line) => {
                io::stderr().write_all(&line)?;
                watch(&String::from_utf8_lossy(&line));
            }
            Err(RecvTimeoutError::Timeout) => end_what_hangs(&child, silence_max)?,
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    reader.join().map_err(|_| io::Error::other("the reader of the output panicked"))??;
    child.wait()
}

fn send_lines(output: impl io::Read, lines: &SyncSender<Vec<u8>>) -> io::Result<()> {
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line)? > 0 && lines.send(std::mem::take(&mut line)).is_ok() {}
    Ok(())
}

/// Kills the test program that `runner` waits for, with all that it started; the runner goes on with the next program. A runner
/// without children is killed itself.
fn end_what_hangs(runner: &Child, silence: Duration) -> io::Result<()> {
    let mut processes = descendants(runner.id());
    if processes.is_empty() {
        processes.push(runner.id());
    }
    eprintln!("xtask: no output for {} s: killing {processes:?}", silence.as_secs());
    // One that has ended meanwhile is no failure.
    Command::new("kill").arg("-KILL").args(processes.iter().map(u32::to_string)).status().map(drop)
}

/// The processes below one, as /proc shows them at this moment.
fn descendants(process: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    let lists =
        threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let children: Vec<u32> = lists
        .flat_map(|list| list.split_whitespace().filter_map(|child| child.parse().ok()).collect::<Vec<_>>())
        .collect();
    children.iter().flat_map(|child| [vec![*child], descendants(*child)].concat()).collect()
}

/// Whether bit 1, for signal 2, is set in what /proc says of a process.
fn ignores_interrupt(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 2 != 0)
}

fn shown(variables: &[(&str, &str)], program: &str, arguments: &[&str]) -> String {
    let name = program.rsplit('/').next().unwrap_or(program);
    let variables = variables.iter().map(|(name, value)| format!("{name}='{value}'"));
    variables
        .chain([name.to_owned()])
        .chain(arguments.iter().map(|text| (*text).to_owned()))
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ignored_interrupt_is_known_by_its_bit() {
        assert!(ignores_interrupt("Name:\ta\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001002\n"));
        assert!(!ignores_interrupt("SigIgn:\t0000000000001000\nSigCgt:\t0000000000000002\n"));
        assert!(!ignores_interrupt(""));
    }

    #[test]
    fn a_watched_program_hears_an_interrupt_that_this_one_ignores() {
        // The shell ignores the signal, as for a background job, and so does its child.
        let inner = "sh -c 'kill -INT $$; echo still there'";
        let ends = |script: &str| {
            let mut lines = Vec::new();
            let done = run_watched(&[], "sh", &["-c", script], &mut |line| lines.push(line.to_owned()));
            (done, lines)
        };
        let (done, lines) = ends(&format!("trap '' INT; exec {inner}"));
        assert_eq!((done, lines), (Ok(()), vec!["still there\n".to_owned()]));
        let (done, lines) = ends(&format!("trap '' INT; exec {} {inner}", HEARS_INTERRUPTS.join(" ")));
        assert!(done.is_err_and(|problem| problem.contains("signal: 2")));
        assert_eq!(lines, Vec::<String>::new());
    }

    #[test]
    fn a_program_that_hangs_is_killed_with_its_children_and_its_runner_goes_on() {
        let mut lines = Vec::new();
        let mut command = Command::new("sh");
        command.args(["-c", "sh -c 'sleep 600 & wait'; echo ended $?"]);
        let silence = Duration::from_millis(200);
        let status = status_watched(command, silence, &mut |line| lines.push(line.to_owned())).unwrap();
        assert!(status.success());
        // The first line is the shell's word of the kill.
        assert_eq!(lines.last().map(String::as_str), Some("ended 137\n"));
    }

    #[test]
    fn a_runner_that_hangs_itself_is_killed() {
        let mut command = Command::new("sleep");
        command.arg("600");
        let status = status_watched(command, Duration::from_millis(200), &mut |_| {}).unwrap();
        assert!(!status.success());
    }

    #[test]
    fn both_outputs_are_watched_in_their_order() {
        let mut lines = Vec::new();
        let script = "echo one; echo two >&2; printf three; echo";
        let done = run_watched(&[], "sh", &["-c", script], &mut |line| lines.push(line.to_owned()));
        assert_eq!(
            (done, lines),
            (Ok(()), vec!["one\n".to_owned(), "two\n".to_owned(), "three\n".to_owned()])
        );
    }
}
