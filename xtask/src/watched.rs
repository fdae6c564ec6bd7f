//! A program that runs tests: its output is read line by line while it runs, and one that prints nothing for long is killed.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

/// A test program that prints nothing for so long hangs. The longest test without a line takes two minutes on a busy machine.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(600);
/// Lines that are read and not shown yet: the terminal is rarely behind.
const LINES_QUEUED_MAX: usize = 1024;
/// How often an end is looked for that the output does not tell: a process that a test has left behind may have the pipe.
const LOOK: Duration = Duration::from_secs(1);
/// The prefix of a command that resets SIGINT to its default action.
const HEARS_INTERRUPTS: [&str; 2] = ["env", "--default-signal=INT"];

/// What is killed when nothing is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hangs {
    /// What the program has started, as it goes on with the next test program. One that has started nothing is killed itself.
    Below,
    /// The program, too.
    All,
}

/// A background job of a script ignores SIGINT, and so does every program that it starts. Tests that send the signal would wait
/// forever, so it is reset for them.
pub(crate) fn hearing_interrupts(program: &str) -> Command {
    if !fs::read_to_string("/proc/self/status").is_ok_and(|status| ignores_interrupt(&status)) {
        return Command::new(program);
    }
    let mut command = Command::new(HEARS_INTERRUPTS[0]);
    command.args(&HEARS_INTERRUPTS[1..]).arg(program);
    command
}

/// Runs a program and calls `watch` for each line, of standard output and standard error together. If it prints nothing for
/// `silence_max`, it is killed, so that it fails.
pub(crate) fn status(
    mut command: Command,
    hangs: Hangs,
    silence_max: Duration,
    watch: &mut dyn FnMut(&[u8]),
) -> io::Result<ExitStatus> {
    let (output, input) = io::pipe()?;
    command.stdout(input.try_clone()?).stderr(input);
    let mut child = command.spawn()?;
    // Dropped here, as it has the write ends: the output ends when every process that has them has ended.
    drop(command);
    let (lines, read) = mpsc::sync_channel(LINES_QUEUED_MAX);
    let reader = thread::spawn(move || send_lines(output, &lines));
    let mut heard = Instant::now();
    loop {
        match read.recv_timeout(LOOK.min(silence_max)) {
            Ok(line) => {
                watch(&line);
                heard = Instant::now();
            }
            // The reader stays until the last process that has the pipe ends.
            Err(RecvTimeoutError::Timeout) if child.try_wait()?.is_some() => return child.wait(),
            Err(RecvTimeoutError::Timeout) if heard.elapsed() >= silence_max => {
                end_what_hangs(&child, hangs, silence_max)?;
                heard = Instant::now();
            }
            Err(RecvTimeoutError::Timeout) => {}
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

fn end_what_hangs(child: &Child, hangs: Hangs, silence: Duration) -> io::Result<()> {
    let mut processes = descendants(child.id());
    if processes.is_empty() || hangs == Hangs::All {
        // The first, as it could go on when what it waits for is killed.
        processes.insert(0, child.id());
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

#[cfg(test)]
mod tests {
    use super::*;

    const SILENCE: Duration = Duration::from_millis(200);

    fn lines_of(
        program: &str,
        arguments: &[&str],
        hangs: Hangs,
        silence: Duration,
    ) -> (ExitStatus, Vec<String>) {
        let mut command = hearing_interrupts(program);
        command.args(arguments);
        let mut lines = Vec::new();
        let mut watch = |line: &[u8]| lines.push(String::from_utf8_lossy(line).into_owned());
        let status = status(command, hangs, silence, &mut watch).unwrap();
        (status, lines)
    }

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
        let ends = |script: &str| lines_of("sh", &["-c", script], Hangs::Below, SILENCE_MAX);
        let (status, lines) = ends(&format!("trap '' INT; exec {inner}"));
        assert!(status.success());
        assert_eq!(lines, ["still there\n"]);
        let (status, lines) = ends(&format!("trap '' INT; exec {} {inner}", HEARS_INTERRUPTS.join(" ")));
        assert!(status.to_string().contains("signal: 2"), "{status}");
        assert_eq!(lines, Vec::<String>::new());
    }

    #[test]
    fn a_program_that_hangs_is_killed_with_its_children_and_its_runner_goes_on() {
        let script = "sh -c 'sleep 600 & wait'; echo ended $?";
        let (status, lines) = lines_of("sh", &["-c", script], Hangs::Below, SILENCE);
        assert!(status.success());
        // The first line is the shell's word of the kill.
        assert_eq!(lines.last().map(String::as_str), Some("ended 137\n"));
    }

    #[test]
    fn a_program_without_a_runner_is_killed_with_its_children() {
        let script = "echo $$; sleep 600 & echo $!; wait; echo went on";
        let (status, lines) = lines_of("sh", &["-c", script], Hangs::All, SILENCE);
        assert!(status.to_string().contains("signal: 9"), "{status}");
        assert_eq!(lines.len(), 2, "{lines:?}");
        for process in lines {
            // One that nobody has waited for yet has no command line left.
            let line = fs::read(format!("/proc/{}/cmdline", process.trim())).unwrap_or_default();
            assert_eq!(line, b"");
        }
    }

    #[test]
    fn a_runner_that_hangs_itself_is_killed() {
        assert!(!lines_of("sleep", &["600"], Hangs::Below, SILENCE).0.success());
    }

    #[test]
    fn a_process_that_is_left_behind_with_the_output_is_not_waited_for() {
        let (status, lines) = lines_of("sh", &["-c", "sleep 600 & echo $!"], Hangs::All, SILENCE_MAX);
        assert!(status.success());
        let left = lines.concat();
        assert!(Command::new("kill").args(["-KILL", left.trim()]).status().unwrap().success());
    }

    #[test]
    fn both_outputs_are_watched_in_their_order() {
        let script = "echo one; echo two >&2; printf three; echo";
        let (status, lines) = lines_of("sh", &["-c", script], Hangs::All, SILENCE_MAX);
        assert!(status.success());
        assert_eq!(lines, ["one\n", "two\n", "three\n"]);
    }
}
