//! If this fails, a key of `bbq top` does nothing, a small terminal ends it, or the shell behind it gets a broken terminal.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::process::{Command, Stdio};

use super::terminal::Terminal;
use crate::support::{BBQ, PATIENCE, Server, Setup, pause, run};

fn setup() -> Setup {
    let listen = ["bravo", "alpha", "charlie"].iter().enumerate();
    let listen: Vec<String> =
        listen.map(|(index, name)| format!("lines+tcp://127.0.0.1:{{{index}}}?name={name}")).collect();
    let listen: Vec<&str> = listen.iter().map(String::as_str).collect();
    Setup::new(&listen).with(&["--workers", "2"])
}

/// The listeners in the order of the screen.
fn order(screen: &str) -> Vec<String> {
    let names = screen.lines().filter_map(|line| line.split_whitespace().next());
    names.filter(|name| ["alpha", "bravo", "charlie"].contains(name)).map(str::to_owned).collect()
}

fn listeners(screen: &str) -> Vec<String> {
    order(screen.split("WORKER ").next().unwrap_or_default())
}

fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).expect("a process")).expect("a process");
    rustix::process::kill_process(pid, signal).expect("it runs");
}

#[test]
fn tables_are_sorted_filtered_and_scrolled() {
    let setup = setup();
    let server = setup.start();
    server.send(0, b"one\n");
    server.send(2, b"one\ntwo\n");
    server.wait_delivered(3);
    let top = Terminal::top(&setup, &["--interval", "0.2"]);
    top.wait("the server", |screen| listeners(screen) == ["bravo", "alpha", "charlie"]);
    // The first table in focus is that of the sinks.
    top.press("\t");
    top.wait("the focus", |screen| screen.contains("* LISTENER"));
    top.press("s");
    top.wait("the order by name", |screen| listeners(screen) == ["alpha", "bravo", "charlie"]);
    top.press("\x1b[17~s");
    top.wait("the order by number", |screen| {
        screen.contains("RECEIVEDv") && listeners(screen) == ["charlie", "bravo", "alpha"]
    });
    top.press("I");
    top.wait("the other order", |screen| {
        screen.contains("RECEIVED^") && listeners(screen) == ["alpha", "bravo", "charlie"]
    });
    top.press("/ALP\r");
    top.wait("the filter", |screen| screen.contains("Filter: ALP") && listeners(screen) == ["alpha"]);
    top.press("\x1b");
    top.wait("no filter", |screen| listeners(screen).len() == 3);
    // Room for one row of each table.
    top.resize(15, 80);
    top.wait("the small screen", |screen| screen.contains("1-") && screen.contains(" of 6"));
    top.press("\t\t");
    top.wait("the sockets", |screen| screen.contains("* SOCKET"));
    top.press("\x1b[4~");
    top.wait("the last socket", |screen| screen.contains("charlie #1"));
    top.press("\x1b[5~\x1b[5~\x1b[5~\x1b[5~\x1b[5~\x1b[5~");
    top.wait("the first socket", |screen| screen.contains("bravo #0") && !screen.contains("charlie #1"));
    top.press("\x1b[B");
    top.wait("the next socket", |screen| !screen.contains("bravo #0"));
    top.press("\x1b[21~");
    assert_eq!(top.wait_end(), Some(0));
}

#[test]
fn a_pause_holds_the_numbers_and_help_and_interval_are_shown() {
    let setup = setup();
    let server = setup.start();
    let top = Terminal::top(&setup, &["--interval", "0.2"]);
    top.wait("the server", |screen| screen.contains("  0.2 s"));
    top.press("+");
    top.wait("the interval", |screen| screen.contains("  0.5 s"));
    top.press("-");
    top.wait("the interval", |screen| screen.contains("  0.2 s"));
    top.press(" ");
    top.wait("the pause", |screen| screen.contains("PAUSED"));
    server.send(0, "a\n".repeat(77).as_bytes());
    server.wait_delivered(77);
    for key in ["h", "\x1bOP", "?"] {
        top.press(key);
        top.wait("the help", |screen| screen.contains("invert the order"));
        top.press("h");
        let screen =
            top.wait("no help", |screen| !screen.contains("invert the order") && screen.contains("SINK"));
        assert!(screen.contains(" 0 =") && !screen.contains(" 77 ="), "{screen}");
    }
    top.press(" ");
    top.wait("the numbers", |screen| screen.contains(" 77 =") && !screen.contains("PAUSED"));
    top.press("\x03");
    assert_eq!(top.wait_end(), Some(130));
}

/// What `bbq sink list` says of the sink with this name.
fn state_of(setup: &Setup, name: &str, token: &str) -> String {
    let mut command = Command::new(BBQ);
    let listed = run(command.args(["sink", "list", "--admin", &setup.admin()]).env("BBQ_TOKEN", token), b"");
    let listed = String::from_utf8(listed.stdout).expect("text");
    let mut lines = listed.lines().skip_while(|line| *line != name);
    lines.nth(1).expect("its state").trim().to_owned()
}

#[test]
fn a_sink_is_paused_and_goes_on() {
    const TOKEN: &str = "token-of-an-operator";
    for has_tokens in [false, true] {
        let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
        setup.set_sinks(&["file:{dir}/a.log?name=archive of all", "file:{dir}/b.log?name=other"]);
        if has_tokens {
            let tokens = setup.path().join("tokens");
            fs::write(&tokens, format!("somebody {TOKEN}\n")).expect("a file");
            setup = setup.config(&format!("admin_token_file = \"{}\"\n", tokens.display()));
        }
        let log = fs::File::create(setup.path().join("log")).expect("a log");
        let child = setup.command().stdout(Stdio::null()).stderr(log).spawn().expect("it starts");
        let _server = Server { setup: &setup, child };
        setup.wait_log("ready");
        let top = Terminal::top_with(&setup, &["--interval", "0.2"], &[("BBQ_TOKEN", TOKEN)]);
        top.wait("the sinks", |screen| screen.contains("archive of all") && screen.contains("P Sink"));
        top.press("p");
        top.wait("the question", |screen| screen.contains("Pause sink archive of all?  Enter does it"));
        top.press("\x1b[B");
        top.wait("the next sink", |screen| screen.contains("Pause sink other?"));
        top.press("\x1b[A");
        top.wait("the first sink", |screen| screen.contains("Pause sink archive of all?"));
        top.press("\x1b");
        top.wait("no question", |screen| screen.contains("F10 Quit"));
        assert_eq!(state_of(&setup, "archive of all", TOKEN), "delivers", "nobody has said yes");
        top.press("p\x1b[B\r");
        top.wait("the pause", |screen| screen.contains("paused other: messages wait in the spool"));
        assert_eq!(state_of(&setup, "other", TOKEN), "paused");
        assert_eq!(state_of(&setup, "archive of all", TOKEN), "delivers");
        let is_shown = |line: &str| line.split_whitespace().take(2).eq(["other", "paused"]);
        top.wait("its state", |screen| screen.lines().any(is_shown));
        top.press("p\x1b[B");
        top.wait("the question", |screen| screen.contains("Resume sink other?"));
        top.press("\r");
        top.wait("the end of the pause", |screen| screen.contains("resumed other: it delivers"));
        assert_eq!(state_of(&setup, "other", TOKEN), "delivers");
        top.press("q");
        assert_eq!(top.wait_end(), Some(0));
    }
}

#[test]
fn no_size_is_too_small() {
    let setup = setup();
    let _server = setup.start();
    let top = Terminal::top(&setup, &["--interval", "0.2"]);
    top.wait("the server", |screen| screen.contains("SOCKET"));
    for (rows, columns) in [(1, 1), (2, 2), (3, 80), (24, 3), (5, 20), (1, 80)] {
        top.resize(rows, columns);
        // A frame of that size is drawn before the next one: the first letter of the title is there.
        top.press("\x0c");
        top.wait("a small screen", |screen| screen.starts_with(['b', '!', 'w', ' ']));
    }
    top.resize(24, 80);
    top.wait("all of it", |screen| screen.contains("SOCKET") && screen.contains("works as configured"));
    top.press("q");
    assert_eq!(top.wait_end(), Some(0));
}

#[test]
fn signals_and_a_suspension_give_the_terminal_back() {
    let setup = setup();
    let _server = setup.start();
    for (number, code) in [(rustix::process::Signal::TERM, 143), (rustix::process::Signal::INT, 130)] {
        let top = Terminal::top(&setup, &[]);
        top.wait_screen("the screen", |screen| {
            screen.alternate_screen() && screen.contents().contains("SINK")
        });
        signal(top.pid(), number);
        assert_eq!(top.wait_end(), Some(code));
    }
    let top = Terminal::top(&setup, &["--interval", "0.2"]);
    top.wait_screen("the screen", |screen| screen.alternate_screen() && screen.contents().contains("SINK"));
    top.press("\x1a");
    top.wait_screen("the screen before", |screen| !screen.alternate_screen() && !screen.hide_cursor());
    let begun = std::time::Instant::now();
    let state = || std::fs::read_to_string(format!("/proc/{}/stat", top.pid())).expect("it lives");
    while !state().contains(") T ") {
        assert!(begun.elapsed() < PATIENCE, "it does not stop");
        pause();
    }
    signal(top.pid(), rustix::process::Signal::CONT);
    top.wait_screen("the screen again", |screen| {
        screen.alternate_screen() && screen.contents().contains("SINK")
    });
    top.press("q");
    assert_eq!(top.wait_end(), Some(0));
}

#[test]
fn a_terminal_without_colours_gets_none() {
    let mut setup = setup();
    let nowhere = crate::support::free_ports(1)[0];
    setup.set_sinks(&[&format!("http://127.0.0.1:{nowhere}/?name=dead")]);
    let server = setup.start();
    server.send(0, b"for nobody\n");
    let cells = |screen: &vt100::Screen| {
        let (rows, columns) = screen.size();
        let places = (0..rows.get()).flat_map(move |row| (0..columns.get()).map(move |column| (row, column)));
        places
            .filter_map(|(row, column)| screen.cell(row, column).map(|cell| (cell.fgcolor(), cell.bgcolor())))
            .collect::<Vec<_>>()
    };
    let is_told = |screen: &vt100::Screen| screen.contents().contains("! sink dead cannot deliver");
    let plain = (vt100::Color::Default, vt100::Color::Default);
    let coloured = Terminal::top(&setup, &["--interval", "0.2"]).wait_screen("the problem", is_told);
    assert!(cells(&coloured).contains(&(vt100::Color::Idx(1), vt100::Color::Default)));
    let top = Terminal::top_with(&setup, &["--interval", "0.2"], &[("NO_COLOR", "1")]);
    assert!(cells(&top.wait_screen("the problem", is_told)).iter().all(|cell| *cell == plain));
}
