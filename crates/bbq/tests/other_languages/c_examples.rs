//! If this fails, a newcomer's first program in C or C++ does not compile, or does not send what it should.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::native::{Library, sources};
use crate::support::{Setup, free_ports, run};

const LINES: &str = "one\n\nthree, which is longer\nlast";

/// A server, and its address as an argument.
fn server() -> (Setup, String) {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let address = format!("bbq://{}", setup.address(0));
    (setup, address)
}

/// Lets a program send the lines of its standard input.
fn sends_lines(program: &Path) {
    let (setup, address) = server();
    sends_lines_to(&setup, &address, program);
}

fn sends_lines_to(setup: &Setup, address: &str, program: &Path) {
    let server = setup.start();
    let output = run(Command::new(program).arg(address), LINES.as_bytes());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "4 messages acknowledged\n", "{output:?}");
    server.wait_delivered(4);
    assert_eq!(String::from_utf8_lossy(&setup.written()), format!("{LINES}\n"));
}

/// Lets the example of spdlog log.
fn logs(program: &Path) {
    let (setup, address) = server();
    let server = setup.start();
    run(Command::new(program).args([&address, "1000"]), b"");
    server.wait_delivered(1000);
    let expected: String = (0..1000).map(|number| format!("info app: message {number} of 1000\n")).collect();
    assert!(setup.written() == expected.as_bytes(), "{}", String::from_utf8_lossy(&setup.written()));
}

#[test]
fn by_pkg_config() {
    let library = Library::install();
    let examples = sources().join("examples");
    sends_lines(&library.compile(&examples.join("send.c"), &["bbq"]));
    sends_lines(&library.compile(&examples.join("send.cpp"), &["bbq"]));
    logs(&library.compile(&examples.join("spdlog.cpp"), &["spdlog", "bbq"]));
}

/// With a name, too: `-static` also links what looks it up.
#[test]
fn without_any_library() {
    let library = Library::install();
    for source in ["send.c", "send.cpp"] {
        let program = library.compile_static(&sources().join("examples").join(source));
        let needs = run(
            Command::new("readelf").args(["--wide", "--program-headers", "--dynamic"]).arg(&program),
            b"",
        );
        let needs = String::from_utf8_lossy(&needs.stdout).into_owned();
        assert!(
            needs.contains("LOAD") && !needs.contains("INTERP") && !needs.contains("NEEDED"),
            "{source}: {needs}"
        );
        sends_lines(&program);
        let (setup, address) = server();
        sends_lines_to(&setup, &address.replace("127.0.0.1", "localhost"), &program);
    }
}

#[test]
fn by_cmake() {
    let library = Library::install();
    let build = library.scratch("build");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(sources().join("examples")).arg("-B").arg(&build);
    configure.arg(format!("-DCMAKE_PREFIX_PATH={}", library.prefix().display()));
    run(&mut configure, b"");
    run(Command::new("cmake").arg("--build").arg(&build), b"");
    for program in ["send_c", "send_static", "send_cpp"] {
        sends_lines(&build.join(program));
    }
    logs(&build.join("spdlog_cpp"));
}

/// The programs of a language in the page for newcomers.
fn programs_of(language: &str) -> Vec<String> {
    let page = fs::read_to_string(sources().join("../../docs/CLIENTS.md")).expect("the page");
    let blocks = page.split("```").skip(1).step_by(2);
    let programs = blocks.filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n'));
    programs.map(str::to_owned).collect()
}

#[test]
fn the_page_for_newcomers_is_right() {
    let library = Library::install();
    for (language, count) in [("c", 1), ("cpp", 2)] {
        let programs = programs_of(language);
        assert_eq!(programs.len(), count, "programs in {language}");
        for (index, program) in programs.iter().enumerate() {
            let (setup, address) = server();
            let server = setup.start();
            let path = setup.path().join(format!("page{index}.{language}"));
            fs::write(&path, program.replace("bbq://127.0.0.1:7700", &address)).expect("a program");
            let packages: &[&str] = if program.contains("spdlog") { &["spdlog", "bbq"] } else { &["bbq"] };
            run(&mut Command::new(library.compile(&path, packages)), b"");
            server.wait_delivered(1);
        }
    }
}

/// But for spdlog's, whose log goes nowhere without a word, as spdlog's own.
#[test]
fn the_first_programs_of_the_page_say_that_there_is_no_server() {
    let library = Library::install();
    let directory = tempfile::tempdir().expect("a directory");
    let nobody = format!("bbq://127.0.0.1:{}", free_ports(1)[0]);
    for language in ["c", "cpp"] {
        let program = programs_of(language).remove(0).replace("bbq://127.0.0.1:7700", &nobody);
        // So that nobody waits for the test.
        let program = program.replace("5000", "100").replace("seconds(5)", "milliseconds(100)");
        let path = directory.path().join(format!("page.{language}"));
        fs::write(&path, program).expect("a program");
        let output = Command::new(library.compile(&path, &["bbq"])).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{language}: {said}");
        assert!(!said.trim().is_empty(), "{language} says nothing");
    }
}

#[test]
fn a_program_without_a_server_ends_and_says_so() {
    let library = Library::install();
    let program = library.compile(&sources().join("examples/send.c"), &["bbq"]);
    let output = Command::new(program).arg("nowhere").output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("\"nowhere\" is not an address of a bbq server; write bbq://HOST:PORT"), "{said}");
}
