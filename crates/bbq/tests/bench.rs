//! `bbq bench` runs every experiment to its end and prints its results as JSON. If this fails, users measure nothing, or programs that
//! read the figures break.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

fn bbq(arguments: &[&str], directory: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bbq")).args(arguments).current_dir(directory).output().unwrap()
}

/// On the disk of the build: another directory may be in memory, where marks are not measured.
fn directory() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Runs an experiment for the shortest time; returns the JSON, which is the same in the output and in the file.
fn run(experiment: &str, out: &Path) -> Value {
    let directory = directory();
    let short = ["bench", experiment, "--duration", "0.05", "--rounds", "1", "--json", "--out"];
    let output = bbq(&[&short[..], &[out.to_str().unwrap()]].concat(), directory.path());
    let errors = String::from_utf8_lossy(&output.stderr);
    let printed: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{experiment}: {errors}"));
    assert_eq!(printed["failures"], serde_json::json!([]), "{experiment}: {errors}");
    let sections = printed["sections"].as_array().unwrap();
    let mut marks = sections.iter().filter_map(|section| section["marks"].as_array()).flatten();
    let are_met = marks.all(|mark| mark["verdict"] == "met");
    let has_rows = sections.iter().any(|section| section["rows"] != serde_json::json!([]));
    assert_eq!(output.status.code(), Some(i32::from(!(are_met && has_rows))), "{experiment}: {errors}");
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
    assert!(left.is_empty(), "{experiment} leaves {left:?}");
    let written = std::fs::read(out.join(format!("{experiment}.json"))).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&written).unwrap(), printed);
    printed
}

/// What programs may rely on.
fn check(experiment: &str, report: &Value, out: &Path) {
    assert_eq!(report["experiment"], experiment);
    assert_eq!(report["rounds"], 1);
    for fact in ["kernel", "processors", "filesystem", "fdatasync_us", "others_before_percent"] {
        assert!(!report["machine"][fact].is_null(), "{experiment}: machine.{fact}");
    }
    let sections = report["sections"].as_array().unwrap();
    assert!(!sections.is_empty(), "{experiment}");
    for (index, section) in sections.iter().enumerate() {
        let plot =
            std::fs::read_to_string(out.join(format!("plots/{experiment}-{}.svg", index + 1))).unwrap();
        assert!(plot.starts_with("<svg ") && plot.ends_with("</svg>\n"), "{experiment}");
        for row in section["rows"].as_array().unwrap() {
            let figures = row["figures"].as_object().unwrap();
            assert!(!figures.is_empty(), "{experiment}: {row}");
            for (metric, spread) in figures {
                let [least, median, most] =
                    ["least", "median", "most"].map(|key| spread[key].as_f64().unwrap());
                assert!(least <= median && median <= most, "{experiment}: {metric} of {row}");
            }
            assert_eq!(row["samples"].as_array().unwrap().len(), 1);
            assert!(
                row["samples"][0]["figures"]["others_busy"].as_f64().unwrap() >= 0.0,
                "{experiment}: {row}"
            );
        }
    }
    let page = std::fs::read_to_string(out.join(format!("{experiment}.html"))).unwrap();
    assert_eq!(page.matches("<svg ").count(), sections.len(), "{experiment}: the page has its plots in it");
    assert!(!page.contains("src=") && !page.contains("href="), "{experiment}: the page needs something else");
}

/// Name and time of each experiment, from the list that is printed without an experiment.
fn listed() -> Vec<(String, String)> {
    let directory = TempDir::new().unwrap();
    let output = bbq(&["bench"], directory.path());
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("  "));
    lines
        .map(|line| {
            let (name, rest) = line.split_once(' ').unwrap();
            (name.to_owned(), rest.trim_start().split_once("  ").unwrap().0.to_owned())
        })
        .collect()
}

#[test]
fn every_experiment_runs_to_its_end_and_reports_in_json() {
    let out = TempDir::new().unwrap();
    for (experiment, _) in listed() {
        check(&experiment, &run(&experiment, out.path()), out.path());
    }
}

/// `bbq bench marks` of one section in this directory; the report and the exit code.
fn marks(section: &str, here: &Path) -> (Value, Option<i32>) {
    let data = directory();
    let short =
        ["bench", "marks", "--only", section, "--seconds", "0.05", "--rounds", "1", "--json", "--data"];
    let output = bbq(&[&short[..], &[data.path().to_str().unwrap()]].concat(), here);
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    (report, output.status.code())
}

#[test]
fn a_mark_is_judged_where_its_floor_is_and_not_met_where_it_is_not() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (report, code) = marks("churn", &repository);
    assert_eq!(report["sections"].as_array().unwrap().len(), 1);
    let mark = &report["sections"][0]["marks"][0];
    assert_eq!(code, Some(i32::from(mark["verdict"] != "met")), "{report}");
    if report["left_out"] == serde_json::json!([]) {
        assert_eq!(report["failures"], serde_json::json!([]));
        let ratio = &report["sections"][0]["rows"][1]["ratio"]["median"];
        assert_eq!(&mark["measured"]["median"], ratio);
        // One round is too few to say more.
        let verdicts: &[&str] =
            if ratio.as_f64().unwrap() > 1.25 { &["likely_missed", "noisy"] } else { &["met"] };
        assert!(verdicts.contains(&mark["verdict"].as_str().unwrap()), "{mark}");
    }
    let (report, code) = marks("stream", directory().path());
    assert_eq!(
        (code, &report["sections"][0]["marks"][0]["verdict"]),
        (Some(1), &Value::from("not_measured"))
    );
    assert!(!report["left_out"].as_array().unwrap().is_empty());
}

#[test]
fn listen_has_all_cases_and_ends_with_a_choice() {
    let out = TempDir::new().unwrap();
    let report = run("listen", out.path());
    let sections = report["sections"].as_array().unwrap();
    assert_eq!(sections.len(), 6);
    for section in sections {
        let rows = section["rows"].as_array().unwrap();
        let names: BTreeSet<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
        let all = ["accept-mutex", "duplicate=2", "handoff", "handoff=fewest", "reuseport", "shared"];
        assert_eq!(names, BTreeSet::from(all));
        for row in rows {
            for metric in [
                "rate",
                "latency_p50",
                "latency_p99",
                "latency_p999",
                "latency_max",
                "latency_stdev",
                "server_cpu",
            ] {
                assert!(row["figures"][metric]["median"].as_f64().unwrap() > 0.0, "{metric} of {row}");
            }
            assert!(!row["samples"][0]["shares"].as_array().unwrap().is_empty());
        }
    }
    let last = report["conclusions"].as_array().unwrap().last().unwrap().as_str().unwrap().to_owned();
    let verdicts = ["Choose ", "Cannot tell: ", "It does not matter on this machine "];
    assert!(verdicts.iter().any(|verdict| last.starts_with(verdict)), "{last}");
}

/// Descendants of this process that run `bbq serve`; a process that is about to run it does not count.
fn servers(pid: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let children = children.split_whitespace().map(|child| child.parse().unwrap());
    children.filter(|child| command(*child).contains("\0serve\0")).collect()
}

/// The arguments of a process, each ended by a zero byte; none if the process has ended.
fn command(pid: u32) -> String {
    String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()).into_owned()
}

#[test]
fn a_killed_bench_leaves_no_server_behind() {
    let directory = TempDir::new().unwrap();
    let mut bench = Command::new(env!("CARGO_BIN_EXE_bbq"))
        .args(["bench", "burst", "--duration", "600"])
        .current_dir(directory.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let server = wait_for("a server", || {
        let server = servers(bench.id()).into_iter().next();
        server.filter(|server| !command(*server).contains("bench-leash"))
    });
    bench.kill().unwrap();
    bench.wait().unwrap();
    wait_for("the server's end", || command(server).is_empty().then_some(()));
}

/// `bbq bench burst`, of one row; its standard output and error are kept.
fn burst(directory: &Path, arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_bbq"))
        .args([&["bench", "burst"], arguments].concat())
        .current_dir(directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The server of each sample, one after the other.
fn next_server(bench: &Child, seen: &mut Vec<u32>) {
    let server = wait_for("a server", || servers(bench.id()).into_iter().find(|pid| !seen.contains(pid)));
    seen.push(server);
}

#[test]
fn an_interrupted_bench_shows_the_rounds_that_are_whole() {
    let directory = TempDir::new().unwrap();
    let bench = burst(directory.path(), &["--duration", "0.05", "--rounds", "1000", "--out", "out"]);
    // A third sample has begun: two rounds are over.
    let mut seen = Vec::new();
    (0..3).for_each(|_| next_server(&bench, &mut seen));
    kill_process(Pid::from_child(&bench), Signal::INT).unwrap();
    let ended = bench.wait_with_output().unwrap();
    let text = String::from_utf8(ended.stdout).unwrap();
    assert_eq!(ended.status.code(), Some(130), "{text}");
    let json = std::fs::read(directory.path().join("out/burst.json")).unwrap();
    let json: Value = serde_json::from_slice(&json).unwrap();
    let rounds = json["rounds"].as_u64().unwrap();
    assert!((2..1000).contains(&rounds), "{rounds}");
    assert!(text.contains(&format!("interrupted after {rounds} of 1000 rounds")), "{text}");
    let row = &json["sections"][0]["rows"][0];
    assert!(text.contains(row["name"].as_str().unwrap()), "{text}");
    assert_eq!(row["samples"].as_array().unwrap().len() as u64, rounds);
    assert_eq!(json["failures"], serde_json::json!([]));
    let left: Vec<_> =
        std::fs::read_dir(directory.path()).unwrap().map(|left| left.unwrap().file_name()).collect();
    assert_eq!(left, ["out"]);
    assert!(seen.iter().all(|server| command(*server).is_empty()));
}

#[test]
fn a_bench_that_is_interrupted_in_a_long_sample_ends_at_once_and_says_that_there_is_nothing() {
    let directory = TempDir::new().unwrap();
    let bench = burst(directory.path(), &["--duration", "3000"]);
    let mut seen = Vec::new();
    next_server(&bench, &mut seen);
    kill_process(Pid::from_child(&bench), Signal::TERM).unwrap();
    let ended = bench.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(143));
    assert!(ended.stdout.is_empty());
    let errors = String::from_utf8(ended.stderr).unwrap();
    assert!(errors.contains("interrupted before the first round was over"), "{errors}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    assert!(command(seen[0]).is_empty());
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what} does not come");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

#[test]
fn the_page_on_measuring_and_the_help_have_the_list() {
    let page = include_str!("../../../docs/BENCH.md");
    let rows = page.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
        Some((name.to_owned(), rest.split(" | ").next()?.to_owned()))
    });
    assert_eq!(rows.collect::<Vec<_>>(), listed());
    let directory = TempDir::new().unwrap();
    let text = |arguments: &[&str]| String::from_utf8(bbq(arguments, directory.path()).stdout).unwrap();
    let (list, help) = (text(&["bench"]), text(&["bench", "--help"]));
    // Not wrapped.
    assert!(list.lines().filter(|line| line.starts_with("  ")).all(|line| help.contains(line)), "{help}");
}

#[test]
fn wrong_usage_names_what_there_is() {
    let directory = TempDir::new().unwrap();
    let refused = |arguments: &[&str], expected: &str| {
        let output = bbq(arguments, directory.path());
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
        assert!(errors.contains(expected), "{arguments:?}: {errors}");
    };
    refused(&["bench", "lisen"], "listen, stream");
    refused(&["bench", "listen", "stre"], "there is no experiment \"stre\"");
    refused(&["bench", "listen", "--only", "nothing"], "there are connections stay open; ");
    refused(&["bench", "listen", "--bbq", "nowhere"], "--bbq nowhere");
    refused(&["bench", "listen", "--rounds", "0"], "--rounds");
    refused(&["bench", "listen", "--duration", "0"], "0.01 to 3600");
    refused(&["bench", "listen", "--data", "nowhere"], "--data nowhere");
    std::fs::write(directory.path().join("file"), "").unwrap();
    refused(&["bench", "listen", "--out", "file/out"], "--out: cannot create file/out");
}
