//! The tests of the Python package, run by pytest on the wheel that users get, in an environment of its own.
//!
//! Everything is under target/python. A second run installs nothing and builds only what has changed. Cargo has a separate
//! directory there, as maturin's variables would make it rebuild pyo3 each time.

use std::path::Path;

use crate::step;
use crate::tally::{PytestOutput, Tally};

/// The same versions as in bindings/python/pyproject.toml. The tests deliver the logs of gunicorn, and what the exporters of OpenTelemetry
/// send, read the metrics as Prometheus does, and check types as users do.
const TOOLS: [&str; 8] = [
    "maturin>=1.16,<2",
    "pytest>=9,<10",
    "gunicorn>=23,<26",
    "opentelemetry-sdk>=1.45,<2",
    "opentelemetry-exporter-otlp-proto-http>=1.45,<2",
    "opentelemetry-exporter-otlp-proto-grpc>=1.45,<2",
    "prometheus-client>=0.24,<1",
    "mypy>=2.4,<3",
];
const PACKAGE: &str = "bindings/python";

/// Needs the program `bbq` of the release profile. `show` shows a line of pytest.
pub(crate) fn test(root: &Path, show: &mut dyn FnMut(&[u8])) -> (Result<(), String>, Tally) {
    let mut output = PytestOutput::of(String::new());
    let done = run(root, &mut output, show);
    (done, output.tally())
}

fn run(root: &Path, output: &mut PytestOutput, show: &mut dyn FnMut(&[u8])) -> Result<(), String> {
    let target = root.join(step::target_directory());
    let (environment, wheels) = (target.join("python/venv"), target.join("python/wheels"));
    let python = environment.join("bin/python");
    let [program, environment, wheels, build] =
        [&target.join("release/bbq"), &environment, &wheels, &target.join("python/build")]
            .map(|path| text(path));
    if !python.exists() {
        step::run(&[], "python3", &["-m", "venv", &environment])?;
    }
    let python = text(&python);
    step::run(&[], &python, &[&["-m", "pip", "install", "--quiet"][..], &TOOLS].concat()).map_err(|problem| {
        format!(
            "{problem}\nthe Python tests need {}, and pip could not get them: make sure that pip reaches a package index \
             (PIP_INDEX_URL, PIP_PROXY), or install them into {environment} from wheels",
            TOOLS.join(" and ")
        )
    })?;
    let manifest = format!("{PACKAGE}/Cargo.toml");
    // The wheel is for this machine alone, so it needs no compatibility tag.
    let wheel = [
        "build",
        "--release",
        "--quiet",
        "--compatibility",
        "linux",
        "--manifest-path",
        &manifest,
        "--out",
        &wheels,
    ];
    step::run(&[("CARGO_TARGET_DIR", &build)], &python, &[&["-m", "maturin"][..], &wheel].concat())?;
    let from =
        ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--force-reinstall", "--find-links"];
    step::run(&[], &python, &[&from[..], &[&wheels, step::PACKAGE]].concat())?;
    let pytest = ["-m", "pytest", "--quiet", "-p", "no:cacheprovider"];
    *output = PytestOutput::of(format!("BBQ={program} {python} {}", pytest.join(" ")));
    let variables = [("BBQ", program.as_str())];
    step::run_watched(&variables, &python, &[&pytest[..], &[PACKAGE]].concat(), &mut |line| {
        show(line);
        output.read(&String::from_utf8_lossy(line));
    })
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
